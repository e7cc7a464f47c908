// RUN: penstock-opt %s -p regst-plan-memory,verify-plan | filecheck %s --check-prefixes=CHECK,BEST
// RUN: penstock-opt %s -p 'regst-plan-memory{budget-ms=1000},verify-plan' | filecheck %s --check-prefixes=CHECK,BEST
// RUN: penstock-opt %s -p 'regst-plan-memory{algorithm="branch-and-bound" steps=1000000},verify-plan' | filecheck %s --check-prefixes=CHECK,BEST
// RUN: penstock-opt %s -p 'regst-plan-memory{algorithm="size-first"},verify-plan' | filecheck %s --check-prefixes=CHECK,SIZE
// RUN: penstock-opt %s -p 'regst-plan-memory{algorithm="branch-and-bound" steps=0},verify-plan' | filecheck %s --check-prefixes=CHECK,SIZE
// RUN: penstock-opt %s -p 'regst-plan-memory{algorithm="first-fit-time"},verify-plan' | filecheck %s --check-prefixes=CHECK,TIME
// RUN: penstock-opt %s --load %S/../Inputs/packers.py -p 'regst-plan-memory{algorithm="stacked"},verify-plan' | filecheck %s --check-prefixes=CHECK,STACKED
// RUN: not penstock-opt %s -p 'regst-plan-memory{algorithm="luck"}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not penstock-opt %s --load %S/../Inputs/packers.py -p 'regst-plan-memory{algorithm="flat"}' 2>&1 | filecheck %s --check-prefix=FLAT
// RUN: not penstock-opt %s --load %S/../Inputs/packers.py -p 'regst-plan-memory{algorithm="broken"}' 2>&1 | filecheck %s --check-prefix=BROKEN
// RUN: not penstock-opt %s -p 'regst-plan-memory{steps=-1}' 2>&1 | filecheck %s --check-prefix=STEPS
// RUN: not penstock-opt %s -p 'regst-plan-memory{budget-ms=-5}' 2>&1 | filecheck %s --check-prefix=TIMES

// UNKNOWN: regst-plan-memory: no memory planner 'luck' (penstock-opt --list memory-planner names them)
// FLAT: regst-plan-memory: memory planner 'flat' puts buffers 0 and 1 on common bytes ({{.*}}packers.py:12)
// BROKEN: regst-plan-memory: memory planner 'broken' fails: ValueError: no ({{.*}}packers.py:23)
// STEPS: regst-plan-memory: steps must not be negative, got -1
// TIMES: regst-plan-memory: budget-ms must not be negative, got -5

// Registers are placed by the algorithm that is asked for; without one, as low as it
// gets: 64 + 128 bytes are needed at once. Largest first, "b" and "d" take the lowest
// place, and above them "a" and "c" need 64 bytes each; where the first comes first,
// "c" lies above "a", and "d" above "c".

!s = !regst.data<tensor<16xf32>>
!l = !regst.data<tensor<32xf32>>

// CHECK-LABEL:   plan.plan @four
// BEST:          regst.block {{.*}} size 192 sum 384 bound 192
// SIZE:          regst.block {{.*}} size 256 sum 384 bound 192
// TIME:          regst.block {{.*}} size 256 sum 384 bound 192
// STACKED:       regst.block {{.*}} size 384 sum 384 bound 192
// SIZE-NEXT:     regst.register "a" in %{{.+}} at 128
// SIZE-NEXT:     regst.register "b" in %{{.+}} at 0
// SIZE-NEXT:     regst.register "c" in %{{.+}} at 192
// SIZE-NEXT:     regst.register "d" in %{{.+}} at 0
// TIME-NEXT:     regst.register "a" in %{{.+}} at 0
// TIME-NEXT:     regst.register "b" in %{{.+}} at 64
// TIME-NEXT:     regst.register "c" in %{{.+}} at 64
// TIME-NEXT:     regst.register "d" in %{{.+}} at 128
// STACKED-NEXT:  regst.register "a" in %{{.+}} at 0
// STACKED-NEXT:  regst.register "b" in %{{.+}} at 64
// STACKED-NEXT:  regst.register "c" in %{{.+}} at 192
// STACKED-NEXT:  regst.register "d" in %{{.+}} at 256
plan.plan @four {
  %a = regst.register "a" slots 1 on <0, host> : !s
  %b = regst.register "b" slots 1 on <0, host> : !l
  %c = regst.register "c" slots 1 on <0, host> : !s
  %d = regst.register "d" slots 1 on <0, host> : !l
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !s) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !l) {
    %v = "test.op"() : () -> tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a : !s) outs(%c : !s) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"(%0) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !s) outs(%d : !l) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"(%0) : (tensor<16xf32>) -> tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
}
