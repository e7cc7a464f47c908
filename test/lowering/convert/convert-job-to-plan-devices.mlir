// RUN: penstock-opt %s -p convert-job-to-plan | filecheck %s

!t = tensor<5x4xf32>

// An op on several devices is a task on each, for its part.

// CHECK-LABEL: plan.plan @parts
job.job @parts placement <cpu, [0:0-1]> {
  // CHECK: %[[W0:.+]] = plan.task "w@0.cpu.0" on <0, cpu:0> {{.*}} -> tensor<3x4xf32> {
  // CHECK-NEXT: job.variable "w" init <zeros> part [0, 0] of [5, 4] : tensor<3x4xf32>
  // CHECK: %[[W1:.+]] = plan.task "w@0.cpu.1" on <0, cpu:1> {{.*}} -> tensor<2x4xf32> {
  // CHECK-NEXT: job.variable "w" init <zeros> part [3, 0] of [5, 4] : tensor<2x4xf32>
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : !t
  // CHECK: plan.task "r@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins(%[[W0]] : tensor<3x4xf32>) -> tensor<3x4xf32> attributes {slots = 2 : i64} {
  // CHECK: op.relu %{{.+}} : tensor<3x4xf32> -> tensor<3x4xf32>
  // CHECK: plan.task "r@0.cpu.1" on <0, cpu:1> stream <compute, 0> ins(%[[W1]] : tensor<2x4xf32>) -> tensor<2x4xf32> attributes {slots = 2 : i64} {
  // CHECK: op.relu %{{.+}} : tensor<2x4xf32> -> tensor<2x4xf32>
  %r = op.relu %w {sbp = #job.sbp<S(0)>, slots = 2 : i64} : !t -> !t
}

// On one device it does not matter what ops ask for.

// CHECK-LABEL: plan.plan @one_device
// CHECK:         plan.task "r" on <0, cpu:0>
// CHECK:         op.relu %{{.+}} : tensor<5x4xf32>
job.job @one_device placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : !t
  %r = op.relu %w {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(1)>]} : !t -> !t
}

// A part of a part lies in the same whole.

// CHECK-LABEL: plan.plan @part_of_a_part
job.job @part_of_a_part placement <cpu, [0:0-1]> {
  // CHECK: job.variable "w" init <zeros> part [4, 1] of [9, 9] : tensor<1x4xf32>
  // CHECK: job.variable "w" init <zeros> part [5, 1] of [9, 9] : tensor<1x4xf32>
  %w = job.variable "w" init <zeros> part [4, 1] of [9, 9] {sbp = #job.sbp<S(0)>} : tensor<2x4xf32>
}

// What is whole on each device is made whole on each.

// CHECK-LABEL: plan.plan @whole
job.job @whole placement <cuda, [1:0-1]> {
  // CHECK: plan.task "w@1.cuda.0" on <1, cuda:0>
  // CHECK-NEXT: job.variable "w" init <zeros> : tensor<5x4xf32>
  // CHECK: plan.task "w@1.cuda.1" on <1, cuda:1>
  // CHECK-NEXT: job.variable "w" init <zeros> : tensor<5x4xf32>
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<B>} : !t
}

// Constants are cut; shapes in properties are those of the parts.

// CHECK-LABEL: plan.plan @properties
job.job @properties placement <cpu, [0:0-1]> {
  // CHECK:     plan.task "c@0.cpu.0"
  // CHECK-NEXT: op.constant dense<[1, 2]> : tensor<2xi64>
  // CHECK:     plan.task "c@0.cpu.1"
  // CHECK-NEXT: op.constant dense<3> : tensor<1xi64>
  %c = op.constant {sbp = #job.sbp<S(0)>} dense<[1, 2, 3]> : tensor<3xi64>
  // CHECK: op.reshape %{{.+}} to [2, 1] : tensor<2xi64> -> tensor<2x1xi64>
  // CHECK: op.reshape %{{.+}} to [1, 1] : tensor<1xi64> -> tensor<1x1xi64>
  %r = op.reshape %c to [3, -1] {sbp = #job.sbp<S(0)>} : tensor<3xi64> -> tensor<3x1xi64>
}

// A boxing is what each device needs; sums are in the order of the devices.

// CHECK-LABEL: plan.plan @boxing
job.job @boxing placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : !t
  // CHECK: %[[S0:.+]] = plan.task "s@0.cpu.0"
  // CHECK: %[[S1:.+]] = plan.task "s@0.cpu.1"
  %s = op.reduce_sum %w axes [0] {sbp = #job.sbp<P>} : !t -> tensor<4xf32>
  // CHECK:      %[[B:.+]] = plan.task "b@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins(%[[S0]], %[[S1]] : tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> attributes {collective = "all_reduce", group = #job.placement<cpu, [0:0-1]>} {
  // CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<4xf32>, %[[Y:.+]]: tensor<4xf32>):
  // CHECK-NEXT:   op.add %[[X]], %[[Y]]
  %b = job.boxing %s from <P> on <cpu, [0:0-1]> to <B> on <cpu, [0:0-1]> : tensor<4xf32>
  // Both devices read what lies in the memory of both.
  // CHECK: plan.task "r@0.cpu.0" {{.*}} ins(%[[B]]
  // CHECK: plan.task "r@0.cpu.1" {{.*}} ins(%[[B]]
  %r = op.relu %b {sbp = #job.sbp<B>} : tensor<4xf32> -> tensor<4xf32>
}

// The slots of a boxing are those of what it makes for each device.

// CHECK-LABEL: plan.plan @slots
job.job @slots placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : !t
  // CHECK: plan.task "b.slice@0.cpu.0" {{.*}} -> tensor<3x2xf32> {
  // CHECK: plan.task "b@0.cpu.0" {{.*}} -> tensor<5x2xf32> attributes {slots = 3 : i64} {
  // CHECK: plan.task "b@0.cpu.1" {{.*}} -> tensor<5x2xf32> attributes {slots = 3 : i64} {
  %b = job.boxing %w from <S(0)> on <cpu, [0:0-1]> to <S(1)> on <cpu, [0:0-1]> {slots = 3 : i64} : !t
}

// A job.copy that brought a tensor to a memory serves boxings too.

// CHECK-LABEL: plan.plan @memoised
job.job @memoised placement <cuda, [0:0]> {
  // CHECK: %[[X:.+]] = plan.task "x"
  %x = job.input "x" : !t
  // CHECK: %[[C:.+]] = plan.task "c" on <0, cuda:0> stream <copy_h2d, 0>
  %c = job.copy %x to <0, cuda:0> : !t
  // CHECK: %[[D:.+]] = plan.task "b@0.cuda.1" on <0, cuda:1> stream <copy_h2d, 0> ins(%[[X]]
  %b = job.boxing %x from <B> on <cpu, [0:0]> to <B> on <cuda, [0:0-1]> : !t
  // CHECK: plan.task "r@0.cuda.0" {{.*}} ins(%[[C]]
  // CHECK: plan.task "r@0.cuda.1" {{.*}} ins(%[[D]]
  %r = op.relu %b {placement = #job.placement<cuda, [0:0-1]>, sbp = #job.sbp<B>} : !t -> !t
}
