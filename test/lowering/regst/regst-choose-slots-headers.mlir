// RUN: penstock-opt %s -p 'regst-choose-slots{interval-ns=10}' | filecheck %s
// RUN: penstock-opt %s -p 'regst-choose-slots{interval-ns=10 memory-limit=511}' | filecheck %s --check-prefix=LOW
// RUN: not penstock-opt %s -p 'regst-choose-slots{interval-ns=10 memory-limit=319}' 2>&1 | filecheck %s --check-prefix=SHORT

// A header has the slots of its register, and is there all the time. "x" is in use for 20 ns:
// that are two slots of 128 bytes if an act begins every 10 ns, two of 64 for its header, and
// 128 for "y", 512 in all. With one slot each these are 128 + 64 + 128 = 320.

// CHECK:  interval_ns = {busiest = 20 : i64, chosen = 10 : i64}
// CHECK:  regst.register "x" slots 2
// CHECK:  regst.register "x/header" slots 2 header "x"
// LOW:    interval_ns = {busiest = 20 : i64, chosen = 20 : i64}
// LOW:    regst.register "x" slots 1
// LOW:    regst.register "x/header" slots 1 header "x"
// SHORT:  memory <0, host> takes 320 bytes with as few slots as can be, but the limit is 319; most of it is for 'x' 128, 'y' 128, 'x/header' 64

!d = !regst.data<tensor<?x4xf32>, max [8, 4]>
!y = !regst.data<tensor<32xf32>>

plan.plan @dynamic {
  %x = regst.register "x" slots 1 on <0, host> : !d
  %h = regst.register "x/header" slots 1 header "x" on <0, host> : !regst.data<tensor<2xi64>>
  %y = regst.register "y" slots 1 on <0, host> : !y
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) attributes {time_ns = 10 : i64} {
    %v = "test.op"() : () -> tensor<?x4xf32>
    plan.yield %v : tensor<?x4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !d) outs(%y : !y) attributes {time_ns = 10 : i64} {
  ^bb0(%v: tensor<?x4xf32>):
    %w = "test.op"() : () -> tensor<32xf32>
    plan.yield %w : tensor<32xf32>
  }
}
