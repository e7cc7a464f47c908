// RUN: penstock-opt %s -p job-place | filecheck %s --check-prefix=PLACE
// RUN: penstock-opt %s -p job-place,job-infer-sbp,job-insert-boxing | filecheck %s --check-prefix=BOX
// RUN: penstock-opt %s -p job-place,job-infer-sbp,job-insert-boxing,convert-job-to-plan | filecheck %s
// RUN: penstock-opt %s -p op-fuse-elementwise | filecheck %s --check-prefix=FUSE

// What passes on jobs make of `job.after`, and the tasks that come of it.

!t = tensor<4x4xf32>

// Readers wait, by a control register each; an output is a reader like any other. What
// makes the value itself does not wait.

// CHECK-LABEL: plan.plan @readers
// CHECK-NEXT:    %[[AC:.+]] = regst.register "b -> c" slots 1 on <0, host> : !regst.control
// CHECK-NEXT:    %[[AY:.+]] = regst.register "b -> y" slots 1 on <0, host> : !regst.control
// CHECK:         plan.task "a" {{.*}} ins(%{{.*}} : tensor<4x4xf32>) ->
// CHECK:         plan.task "b" {{.*}} signals(%[[AC]], %[[AY]] : !regst.control, !regst.control)
// CHECK:         plan.task "c" {{.*}} waits(%[[AC]] : !regst.control)
// CHECK:         plan.task "y" {{.*}} waits(%[[AY]] : !regst.control)
// CHECK:         plan.task "c_1"
// CHECK-NOT:     waits
job.job @readers placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.matmul %x, %x : !t, !t -> !t
  %b = op.relu %x : !t -> !t
  %y = job.after %a, %b : !t, !t
  %c = op.matmul %y, %x : !t, !t -> !t
  job.output "y", %y : !t
  job.output "c", %c : !t
}

// What data orders takes no register, nor what another one implies.

// CHECK-LABEL: plan.plan @ordered
// CHECK-NEXT:    regst.register "b -> c"
// CHECK-NEXT:    plan.task "x"
job.job @ordered placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %a : !t -> !t
  %y = job.after %x, %a, %b, %w : !t, !t, !t, !t
  %c = op.neg %y : !t -> !t
  %z = job.after %c, %a : !t, !t
  %d = op.neg %z : !t -> !t
  job.output "b", %b : !t
  job.output "d", %d : !t
}

// What waits for a value that waits itself waits for both.

// CHECK-LABEL: plan.plan @twice
// CHECK-NEXT:    regst.register "a -> d"
// CHECK-NEXT:    regst.register "b -> d"
// CHECK-NEXT:    plan.task "x"
job.job @twice placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.tanh %x : !t -> !t
  %y = job.after %a, %b : !t, !t
  %z = job.after %x, %y : !t, !t
  %d = op.neg %z : !t -> !t
  job.output "b", %b : !t
  job.output "d", %d : !t
}

// The result lies where the first tensor is, and the others are not brought there. A
// copy of it waits, one of the tensor does not.

// PLACE-LABEL: job.job @copies
// PLACE:         %x_cuda = job.copy %x to <0, cuda:0>
// PLACE:         %y = job.after %x, %a :
// PLACE-NEXT:    %y_cuda = job.copy %y to <0, cuda:0>
// PLACE-NEXT:    op.neg %y_cuda

// CHECK-LABEL: plan.plan @copies
// CHECK-NEXT:    regst.register "a -> y_cuda" slots 1 on <0, host>
// CHECK-NEXT:    plan.task "x"
job.job @copies placement <cuda, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %y = job.after %x, %a : !t, !t
  %b = op.neg %y : !t -> !t
  %c = op.add %a, %b : !t, !t -> !t
  job.output "c", %c : !t
}

// On several devices the result lies like the first tensor, and each part of a reader
// waits for each part of the others.

// BOX-LABEL: job.job @parts
// BOX:         %y = job.after %a, %b :
// BOX-NEXT:    op.tanh %y {sbp = #job.sbp<S(0)>}

// CHECK-LABEL: plan.plan @parts
// CHECK-NEXT:    regst.register "b@0.cpu.0 -> c@0.cpu.0"
// CHECK-NEXT:    regst.register "b@0.cpu.1 -> c@0.cpu.0"
// CHECK-NEXT:    regst.register "b@0.cpu.0 -> c@0.cpu.1"
// CHECK-NEXT:    regst.register "b@0.cpu.1 -> c@0.cpu.1"
// CHECK-NEXT:    plan.task "x"
job.job @parts placement <cpu, [0:0-1]> {
  %x = job.input "x" : !t
  %a = op.relu %x {sbp = #job.sbp<S(0)>} : !t -> !t
  %b = op.sigmoid %x {sbp = #job.sbp<S(1)>} : !t -> !t
  %y = job.after %a, %b : !t, !t
  %c = op.tanh %y : !t -> !t
  job.output "c", %c : !t
  job.output "b", %b : !t
}

// A boxing of it waits, even if the tensor is boxed in the same way; where there is no
// task for it, its readers do.

// CHECK-LABEL: plan.plan @boxed
// CHECK-NEXT:    regst.register "b@0.cpu.0 -> c@0.cpu.0"
// CHECK-NEXT:    regst.register "b@0.cpu.1 -> c@0.cpu.0"
// CHECK-NEXT:    regst.register "b@0.cpu.0 -> c@0.cpu.1"
// CHECK-NEXT:    regst.register "b@0.cpu.1 -> c@0.cpu.1"
// CHECK-NEXT:    plan.task "x"
job.job @boxed placement <cpu, [0:0-1]> {
  %x = job.input "x" : !t
  %b = op.sigmoid %x {sbp = #job.sbp<B>} : !t -> !t
  %y = job.after %x, %b : !t, !t
  %c = op.tanh %y {sbp = #job.sbp<B>} : !t -> !t
  job.output "c", %c : !t
  job.output "b", %b : !t
}

// A constant that waits stays as it is wanted there.

// BOX-LABEL: job.job @constant
// BOX:         %k = op.constant {sbp = #job.sbp<[[HOME:[^>]+]]>}
// BOX:         %y = job.after %k, %b :
// BOX-NEXT:    op.tanh %y {sbp = #job.sbp<[[HOME]]>}
job.job @constant placement <cpu, [0:0-1]> {
  %x = job.input "x" : !t
  %k = op.constant dense<1.0> : !t
  %b = op.sigmoid %x : !t -> !t
  %y = job.after %k, %b : !t, !t
  %c = op.tanh %y : !t -> !t
  job.output "c", %c : !t
  job.output "b", %b : !t
}

// For tasks of another rank there is a token, which all share that wait for the same.

// CHECK-LABEL: plan.plan @ranks
// CHECK-NEXT:    %[[TOKEN:.+]] = regst.register "b -> b.token" slots 1 on <1, host>
// CHECK-NEXT:    %[[C:.+]] = regst.register "b.token.copy@0.cpu.0 -> c" slots 1 on <0, host>
// CHECK-NEXT:    %[[D:.+]] = regst.register "b.token.copy@0.cpu.0 -> d" slots 1 on <0, host>
// CHECK:         plan.task "b" on <1, cpu:0> {{.*}} signals(%[[TOKEN]] : !regst.control)
// CHECK:         %[[T:.+]] = plan.task "b.token" on <1, cpu:0> stream <compute, 0> ins() waits(%[[TOKEN]] : !regst.control) -> tensor<1xi8>
// CHECK-NEXT:      op.constant dense<0> : tensor<1xi8>
// CHECK:         plan.task "b.token.copy@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins(%[[T]] : tensor<1xi8>) signals(%[[C]], %[[D]] : !regst.control, !regst.control) -> tensor<1xi8>
// CHECK:         plan.task "c" on <0, cpu:0> {{.*}} waits(%[[C]] : !regst.control)
// CHECK:         plan.task "d" on <0, cpu:0> {{.*}} waits(%[[D]] : !regst.control)
job.job @ranks placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %b = op.relu %x {placement = #job.placement<cpu, [1:0]>} : !t -> !t
  %y = job.after %x, %b : !t, !t
  %c = op.neg %y : !t -> !t
  %d = op.tanh %y : !t -> !t
  job.output "b", %b : !t
  job.output "c", %c : !t
  job.output "d", %d : !t
}

// Elementwise ops are not fused across: the value that waits is another one.

// FUSE-LABEL: job.job @apart
// FUSE:         %a = op.relu %x
// FUSE-NEXT:    %b = op.tanh %x
// FUSE-NEXT:    %y = job.after %a, %b
// FUSE-NEXT:    op.neg %y
job.job @apart placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.tanh %x : !t -> !t
  %y = job.after %a, %b : !t, !t
  %c = op.neg %y : !t -> !t
  job.output "c", %c : !t
}
