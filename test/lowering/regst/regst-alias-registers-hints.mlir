// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-alias-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,verify-plan,convert-plan-to-launch --split-input-file | filecheck %s --check-prefix=PROGRAM
// RUN: penstock-opt %s -p 'convert-job-to-plan,plan-order-tasks{in-place=true},plan-assign-streams{streams=3},plan-create-registers,regst-alias-registers' --split-input-file | filecheck %s --check-prefix=STREAMS

// Of the operands that a result may lie over, the first one is taken unless a hint names
// another one; it goes with the op into its task.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @may
// CHECK:         regst.register "x/out" slots
// CHECK:         %[[Y:.+]] = regst.register "y/out" slots
// CHECK:         regst.register "a/out" alias %[[Y]]
// CHECK:         op.add {{.*}} {in_place = [#op.hint<may over 1>]}
job.job @may placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %a = op.add %x, %y {in_place = [#op.hint<may over 1>]} : !t, !t -> !t
  job.output "a", %a : !t
}

// -----

// Of several that it may lie over, the first that it can; why not the others is said.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @first
// CHECK:         %[[Z:.+]] = regst.register "z/out" slots
// CHECK:         regst.register "a/out" alias %[[Z]] {{.*}} on <0, host> {rejected = "over 1: reader: 'b_1' may read it later"}
// CHECK:         regst.register "d/out" alias %[[Z]] {{.*}} on <0, host> {rejected = "over 1: twice: it already lies on another operand"}
job.job @first placement <cpu, [0:0]> {
  %c = job.input "c" : tensor<4x4xi1>
  %x = job.input "x" : !t
  %y0 = job.input "y0" : !t
  %y = op.exp %y0 : !t -> !t
  %z = job.input "z" : !t
  %b = op.add %y, %z : !t, !t -> !t
  %a = op.where %c, %b, %z {in_place = [#op.hint<may over 1>, #op.hint<may over 2>]} : tensor<4x4xi1>, !t, !t -> !t
  %d = op.sub %a, %x {in_place = [#op.hint<may over 1>, #op.hint<may over 0>]} : !t, !t -> !t
  job.output "b", %b : !t
  job.output "d", %d : !t
}

// -----

// What is never to lie over an operand lies over another one, or none; no view of that
// operand counts as another one.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @never
// CHECK:         %[[X:.+]] = regst.register "x/out" slots
// CHECK:         %[[Y:.+]] = regst.register "y/out" slots
// CHECK:         regst.register "a/out" alias %[[Y]]
// CHECK:         regst.register "b/out" slots 1 on <0, host> {no_alias = "never: it is to be kept off operand 0"}
// CHECK:         regst.register "c/out" slots 1 on <0, host> {no_alias = "never: it is to be kept off operand 0; never: it is to be kept off operand 1"}
// CHECK:         regst.register "d/out" slots 1 on <0, host> {no_alias = "never: it is to be kept off operand 0"}
// PROGRAM-LABEL: launch.program @never
job.job @never placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y0 = job.input "y0" : !t
  %y = op.exp %y0 : !t -> !t
  %a = op.add %x, %y {in_place = [#op.hint<never over 0>]} : !t, !t -> !t
  %b = op.reshape %a to [16] {in_place = [#op.hint<never>]} : !t -> tensor<16xf32>
  %c = op.add %x, %x {in_place = [#op.hint<never>]} : !t, !t -> !t
  %d = op.add %c, %c {in_place = [#op.hint<never over 0>]} : !t, !t -> !t
  job.output "b", %b : tensor<16xf32>
  job.output "d", %d : !t
}

// -----

// No operand of a concatenation is a part of the result if one of them is never to be.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @never_part
// CHECK:         regst.register "x/out" slots
// CHECK:         regst.register "y/out" slots
// CHECK:         regst.register "c/out" slots 1 on <0, host> {no_alias = "never: it is to be kept off operand 1"}
job.job @never_part placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %c = op.concat %x, %y axis 0 {in_place = [#op.hint<never over 1>]} : !t, !t -> tensor<8xf32>
  job.output "c", %c : tensor<8xf32>
}

// -----

// A kernel that cannot work over an operand is the reason where a hint only may.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @kernel
// CHECK:         regst.register "m/out" slots 1 on <0, host> {no_alias = "kernel: operand 0: op.matmul cannot write result 0 over it"}
job.job @kernel placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %m = op.matmul %x, %y {in_place = [#op.hint<may over 0>]} : !t, !t -> !t
  job.output "m", %m : !t
}

// -----

// What must write over an operand does, whoever could do so with nothing asked: `v` is
// no view, as it is read after `a`. Without hints it would be the other way round.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @must
// CHECK:         %[[X:.+]] = regst.register "x/out" slots
// CHECK:         regst.register "v/out" slots 1 on <0, host> {no_alias = "must: 'a' has to write over it"}
// CHECK:         regst.register "a/out" alias %[[X]]
// PROGRAM-LABEL: launch.program @must
job.job @must placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %v = op.reshape %x to [16] : !t -> tensor<16xf32>
  %a = op.tanh %x {in_place = [#op.hint<must over 0>]} : !t -> !t
  %b = op.relu %v : tensor<16xf32> -> tensor<16xf32>
  job.output "a", %a : !t
  job.output "b", %b : tensor<16xf32>
}

// -----

// What reads an operand that a later op must write over stays before that op, whatever
// the order, and on another stream waits for nothing but is waited for.

!t = tensor<4x4xf32>
!l = tensor<25x4x4xf32>

// CHECK-LABEL: plan.plan @before
// STREAMS-LABEL: plan.plan @before
// STREAMS:         %[[X:.+]] = regst.register "x/out" slots
// STREAMS:         regst.register "a/out" alias %[[X]]
// STREAMS:         %[[K:.+]] = regst.register "v -> a" slots 1
// STREAMS:         plan.task "v" {{.*}} signals(%[[K]]
// STREAMS:         plan.task "a" {{.*}} waits(%[[K]]
job.job @before placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %v = op.matmul %x, %x : !t, !t -> !t
  %r = op.expand %v to [25, 4, 4] : !t -> !l
  %a = op.neg %x {in_place = [#op.hint<must over 0>]} : !t -> !t
  %s = op.matmul %a, %a : !t, !t -> !t
  job.output "s", %s : !t
  job.output "r", %r : !l
}

// -----

// Views and parts must lie there, too: both halves of `x`, and both operands of `c`.

!h = tensor<4xf32>

// CHECK-LABEL: plan.plan @views
// CHECK:         %[[X:.+]] = regst.register "x/out" slots
// CHECK:         regst.register "p/out" alias %[[X]] : !regst.data<tensor<8xf32>> slots
// CHECK-NEXT:    regst.register "p/out_1" alias %[[X]] : !regst.data<tensor<8xf32>> at 16 slots
// CHECK-NEXT:    %[[C:.+]] = regst.register "c/out" slots
// CHECK-NEXT:    regst.register "y/out" alias %[[C]]
// CHECK-NEXT:    regst.register "z/out" alias %[[C]]
job.job @views placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8xf32>
  %p, %q = op.split %x axis 0 sizes [4, 4] {in_place = [#op.hint<must over 0>, #op.hint<result 1 must over 0>]} : tensor<8xf32> -> !h, !h
  %y = job.input "y" : !h
  %z = job.input "z" : !h
  %c = op.concat %y, %z axis 0 {in_place = [#op.hint<must over 1>]} : !h, !h -> tensor<8xf32>
  job.output "p", %p : !h
  job.output "q", %q : !h
  job.output "c", %c : tensor<8xf32>
}

// -----

// A register that says that it is no alias is none, and others are looked at all the
// same; nor does the root of what would be moved.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

// CHECK-LABEL: plan.plan @by_hand
// CHECK:         %[[X:.+]] = regst.register "x" slots
// CHECK:         %[[A:.+]] = regst.register "a" slots 1 on <0, host> {no_alias = "I look at it"}
// CHECK-NEXT:    regst.register "b" alias %[[A]]
// CHECK-NEXT:    regst.register "c" slots 1 on <0, host> {no_alias = "no_alias: 'a' says so already"}
plan.plan @by_hand {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> {no_alias = "I look at it"} : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%b, %x : !r, !r) outs(%c : !regst.data<tensor<4xf32>>) {
  ^bb0(%0: !t, %1: !t):
    %2 = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %2 : tensor<4xf32>
  }
}

// -----

// An op that is none on tensors cannot work in place, whatever is asked of it.

// CHECK-LABEL: plan.plan @copy
// CHECK:         regst.register "d/out" {{.*}} {no_alias = "kernel: operand 0: job.copy cannot write result 0 over it"}
job.job @copy placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %d = job.copy %x to <0, cpu:1> {in_place = [#op.hint<may over 0>]} : tensor<4xf32>
  %e = job.copy %d to <0, cpu:0> : tensor<4xf32>
  job.output "e", %e : tensor<4xf32>
}
