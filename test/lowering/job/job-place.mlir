// RUN: penstock-opt %s -p job-place | filecheck %s
// RUN: penstock-opt %s -p job-place,job-place | filecheck %s

!t = tensor<4xf32>

// On the processor that inputs and outputs lie on there is nothing to copy.

// CHECK-LABEL: job.job @host
// CHECK-NOT:     job.copy
job.job @host placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %r = op.relu %x : !t -> !t
  job.output "y", %r : !t
}

// Inputs come from the host of the job's device and outputs go to it.

// CHECK-LABEL: job.job @device
job.job @device placement <cuda, [2:1]> {
  // CHECK-NEXT: %[[X:.+]] = job.input "x"
  // CHECK-NEXT: %[[DEVICE:x_cuda]] = job.copy %[[X]] to <2, cuda:1>
  %x = job.input "x" : !t
  // CHECK-NEXT: %[[R:.+]] = op.relu %[[DEVICE]]
  %r = op.relu %x : !t -> !t
  // CHECK-NEXT: %[[HOST:r_cpu]] = job.copy %[[R]] to <2, cpu:0>
  // CHECK-NEXT: job.output "y", %[[HOST]]
  job.output "y", %r : !t
}

// Copies that outputs alone read are last, with these: other ops stay next to each other.

// CHECK-LABEL: job.job @outputs
job.job @outputs placement <cuda, [0:0]> {
  // CHECK:      %[[A:.+]] = op.relu
  // CHECK-NEXT: %[[B:.+]] = op.exp %[[A]]
  // CHECK-NEXT: %[[C:.+]] = op.neg %[[B]]
  // CHECK-NEXT: %[[C_CPU:.+]] = job.copy %[[C]] to <0, cpu:0>
  // CHECK-NEXT: %[[D:.+]] = op.relu %[[C_CPU]]
  // CHECK-NEXT: %[[A_CPU:.+]] = job.copy %[[A]] to <0, cpu:0>
  // CHECK-NEXT: job.output "a", %[[A_CPU]]
  // CHECK-NEXT: %[[B_CPU:.+]] = job.copy %[[B]] to <0, cpu:0>
  // CHECK-NEXT: job.output "a2", %[[A_CPU]]
  // CHECK-NEXT: job.output "b", %[[B_CPU]]
  // CHECK-NEXT: }
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  job.output "a", %a : !t
  %b = op.exp %a : !t -> !t
  job.output "a2", %a : !t
  job.output "b", %b : !t
  %c = op.neg %b : !t -> !t
  %d = op.relu %c {placement = #job.placement<cpu, [0:0]>} : !t -> !t
}

// Variables are made where the job runs: the common case has no copy.

// CHECK-LABEL: job.job @variable
// CHECK-NOT:     job.copy
job.job @variable placement <cuda, [0:0]> {
  %w = job.variable "w" init <zeros> : !t
  %r = op.relu %w : !t -> !t
}

// A variable has a place of its own, and is copied to where it is used elsewhere.

// CHECK-LABEL: job.job @placed_variable
job.job @placed_variable placement <cuda, [0:0]> {
  // CHECK-NEXT: %[[W:.+]] = job.variable "w"
  // CHECK-NEXT: %[[COPY:.+]] = job.copy %[[W]] to <0, cuda:0>
  %w = job.variable "w" init <zeros> {placement = #job.placement<cpu, [0:0]>} : !t
  // CHECK-NEXT: op.relu %[[COPY]]
  %r = op.relu %w : !t -> !t
}

// An op may run elsewhere than its job.

// CHECK-LABEL: job.job @override
job.job @override placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // CHECK:      %[[A:.+]] = op.relu %x : {{.*}}
  // CHECK-NEXT: %[[A_CUDA:.+]] = job.copy %[[A]] to <0, cuda:0>
  %a = op.relu %x : !t -> !t
  // CHECK-NEXT: %[[B:.+]] = op.relu %[[A_CUDA]] {placement = #job.placement<cuda, [0:0]>}
  // CHECK-NEXT: %[[B_CPU:.+]] = job.copy %[[B]] to <0, cpu:0>
  %b = op.relu %a {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  // CHECK-NEXT: op.relu %[[B_CPU]]
  %c = op.relu %b : !t -> !t
}

// All uses on a device share one copy; each device has its own.

// CHECK-LABEL: job.job @shared
job.job @shared placement <cpu, [0:0]> {
  // CHECK-NEXT: %[[X:.+]] = job.input "x"
  // CHECK-NEXT: %[[C0:.+]] = job.copy %[[X]] to <0, cuda:0>
  // CHECK-NEXT: %[[C1:.+]] = job.copy %[[X]] to <0, cuda:1>
  // CHECK-NOT:  job.copy
  %x = job.input "x" : !t
  // CHECK: op.add %[[C0]], %[[C0]]
  %a = op.add %x, %x {placement = #job.placement<cuda, [0:0]>} : !t, !t -> !t
  // CHECK: op.relu %[[C1]]
  %b = op.relu %x {placement = #job.placement<cuda, [0:1]>} : !t -> !t
  // CHECK: op.relu %[[C0]]
  %c = op.relu %x {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  // CHECK: op.relu %[[X]]
  %d = op.relu %x : !t -> !t
}

// A copy that a person wrote serves the uses after it (the first one, of several), and
// may read from anywhere.

// CHECK-LABEL: job.job @hand_written_copy
job.job @hand_written_copy placement <cpu, [0:0]> {
  // CHECK-NEXT: %[[X:.+]] = job.input "x"
  // CHECK-NEXT: %[[C:.+]] = job.copy %[[X]] to <0, cuda:0>
  // CHECK-NEXT: %[[D:.+]] = job.copy %[[C]] to <0, cuda:1>
  %x = job.input "x" : !t
  %c = job.copy %x to <0, cuda:0> : !t
  %d = job.copy %c to <0, cuda:1> : !t
  %second = job.copy %x to <0, cuda:0> : !t
  // CHECK:      op.relu %[[C]]
  %a = op.relu %x {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  // CHECK-NEXT: op.relu %[[D]]
  %b = op.relu %d {placement = #job.placement<cuda, [0:1]>} : !t -> !t
}

// A constant moves to the one device it is used on.

// CHECK-LABEL: job.job @moved_constant
// CHECK-NEXT:    %[[C:.+]] = op.constant {placement = #job.placement<cpu, [0:0]>}
// CHECK-NEXT:    job.output "y", %[[C]]
job.job @moved_constant placement <cuda, [0:0]> {
  %c = op.constant dense<1.0> : !t
  job.output "y", %c : !t
}

// One that is used on several devices is made on each; none of them is copied.

// CHECK-LABEL: job.job @cloned_constant
// CHECK-NEXT:    %[[CUDA:.+]] = op.constant dense<1.0
// CHECK-NEXT:    %[[CPU:.+]] = op.constant {placement = #job.placement<cpu, [0:0]>} dense<1.0
// CHECK-NEXT:    job.output "y", %[[CPU]]
// CHECK-NEXT:    op.relu %[[CUDA]]
job.job @cloned_constant placement <cuda, [0:0]> {
  %c = op.constant dense<1.0> : !t
  job.output "y", %c : !t
  %r = op.relu %c : !t -> !t
}

// The clone that lies where the job runs needs no placement.

// CHECK-LABEL: job.job @placed_constant
// CHECK-NEXT:    %[[CPU:.+]] = op.constant {placement = #job.placement<cpu, [0:0]>} dense<1.0
// CHECK-NEXT:    %[[CUDA:.+]] = op.constant dense<1.0
// CHECK-NEXT:    op.relu %[[CUDA]]
// CHECK-NEXT:    job.output "y", %[[CPU]]
job.job @placed_constant placement <cuda, [0:0]> {
  %c = op.constant {placement = #job.placement<cpu, [0:0]>} dense<1.0> : !t
  %r = op.relu %c : !t -> !t
  job.output "y", %c : !t
}

// Clones stand in the order of their first uses.

// CHECK-LABEL: job.job @several_clones
// CHECK-NEXT:    op.constant dense<1.0
// CHECK-NEXT:    op.constant {placement = #job.placement<cuda, [0:1]>}
// CHECK-NEXT:    op.constant {placement = #job.placement<cuda, [0:0]>}
job.job @several_clones placement <cpu, [0:0]> {
  %c = op.constant {placement = #job.placement<cpu, [0:0]>} dense<1.0> : !t
  %a = op.relu %c {placement = #job.placement<cuda, [0:1]>} : !t -> !t
  %b = op.relu %c {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  %d = op.relu %c : !t -> !t
}

// What an op on several devices makes or uses stays: it takes SBP to say which device
// needs what. Only constants are made where they are used.

// CHECK-LABEL: job.job @several_devices
// CHECK-NOT:     job.copy
job.job @several_devices placement <cuda, [0:0-1]> {
  // CHECK:      %[[CUDA:.+]] = op.constant dense<1.0
  // CHECK-NEXT: %[[CPU:.+]] = op.constant {placement = #job.placement<cpu, [0:0]>} dense<1.0
  %x = job.input "x" : !t
  %c = op.constant dense<1.0> : !t
  // CHECK-NEXT: op.add %x, %[[CUDA]]
  %a = op.add %x, %c : !t, !t -> !t
  // CHECK-NEXT: op.relu %a {placement = #job.placement<cuda, [0:0]>}
  %r = op.relu %a {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  job.output "y", %a : !t
  // CHECK: job.output "c", %[[CPU]]
  job.output "c", %c : !t
}

// Boxings say where they read from.

// CHECK-LABEL: job.job @boxing
// CHECK-NOT:     job.copy
job.job @boxing placement <cuda, [0:0]> {
  %x = job.input "x" : !t
  %b = job.boxing %x from <B> on <cpu, [0:0]> to <B> on <cuda, [0:0]> : !t
  %r = op.relu %b : !t -> !t
}

// What is no job is left alone.

// CHECK-LABEL: plan.plan @plan
// CHECK-NOT:     job.copy
plan.plan @plan {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %r = plan.task "r" on <0, cuda:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%v: !t):
    %r = op.relu %v : !t -> !t
    plan.yield %r : !t
  }
}
