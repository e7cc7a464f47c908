// RUN: penstock-opt %s -p convert-job-to-plan | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,convert-job-to-plan | filecheck %s

!t = tensor<4xf32>

// Each op becomes a task of its own, in the same order; the job's name and its
// attributes are the plan's.

// CHECK-LABEL: plan.plan @relu attributes {acme.origin = "a.onnx"} {
job.job @relu placement <cpu, [0:0]> attributes {acme.origin = "a.onnx"} {
  // CHECK-NEXT: %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
  // CHECK-NEXT:   %[[V:.+]] = job.input "x" : tensor<4xf32>
  // CHECK-NEXT:   plan.yield %[[V]] : tensor<4xf32>
  // CHECK-NEXT: }
  %x = job.input "x" : !t
  // CHECK-NEXT: %r = plan.task "r" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: ^bb0(%[[V:x.*]]: tensor<4xf32>):
  // CHECK-NEXT:   %[[R:.+]] = op.relu %[[V]] : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT:   plan.yield %[[R]] : tensor<4xf32>
  // CHECK-NEXT: }
  %r = op.relu %x : !t -> !t
  // CHECK-NEXT: plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%r : tensor<4xf32>) {
  // CHECK-NEXT: ^bb0(%[[V:.+]]: tensor<4xf32>):
  // CHECK-NEXT:   job.output "y", %[[V]] : tensor<4xf32>
  // CHECK-NEXT:   plan.yield{{$}}
  // CHECK-NEXT: }
  job.output "y", %r : !t
}

// A task is named by the SSA name, else by the port, else by the op; never by a name
// that is taken.

// CHECK-LABEL: plan.plan @names
job.job @names placement <cpu, [0:0]> {
  // CHECK: plan.task "x" {{.*}} {
  // CHECK-NEXT: job.input "image"
  %x = job.input "image" : !t
  // CHECK: plan.task "port" {{.*}} {
  // CHECK-NEXT: job.input "port"
  %0 = job.input "port" : !t
  // CHECK: plan.task "weight" {{.*}} {
  // CHECK-NEXT: job.variable "weight"
  %1 = job.variable "weight" init <zeros> : !t
  // CHECK: plan.task "relu" {{.*}} ins(%0
  %2 = op.relu %0 : !t -> !t
  // CHECK: plan.task "relu_1" {{.*}} ins(%1
  %3 = op.relu %1 : !t -> !t
  // CHECK: plan.task "constant" {{.*}} ins()
  %4 = op.constant dense<1.0> : !t
  // CHECK: plan.task "fused" {{.*}} ins()
  %5 = op.fused -> !t {
    %c = op.constant dense<1.0> : !t
    op.yield %c : !t
  }
  // CHECK: plan.task "x_1" {{.*}} ins(%x
  job.output "x", %x : !t
}

// A number of its own does not keep a name from being made unique.

// CHECK-LABEL: plan.plan @numbers
job.job @numbers placement <cpu, [0:0]> {
  // CHECK: plan.task "x" 
  %x = job.input "a" : !t
  // CHECK: plan.task "x_1" 
  %0 = job.input "x_1" : !t
  // CHECK: plan.task "x_2" 
  job.output "x", %x : !t
  // CHECK: plan.task "x_1_1" 
  job.output "x_1", %x : !t
}

// What an op uses twice its task reads once.

// CHECK-LABEL: plan.plan @twice
// CHECK:         plan.task "b" {{.*}} ins(%a : tensor<4xf32>)
// CHECK-NEXT:    ^bb0(%[[A:.+]]: tensor<4xf32>):
// CHECK-NEXT:      op.add %[[A]], %[[A]]
job.job @twice placement <cpu, [0:0]> {
  %a = job.input "a" : !t
  %b = op.add %a, %a : !t, !t -> !t
}

// Ops run where they are placed, inputs and outputs on the host. Copies to a device run
// on its stream for copies to it, copies from a device on its stream for those.

// CHECK-LABEL: plan.plan @devices
job.job @devices placement <cuda, [1:2]> {
  // CHECK: plan.task "x" on <1, cpu:0> stream <compute, 0>
  %x = job.input "x" : !t
  // CHECK: plan.task "up" on <1, cuda:2> stream <copy_h2d, 0> ins(%x : tensor<4xf32>)
  // CHECK: job.copy %{{.+}} to <1, cuda:2>
  %up = job.copy %x to <1, cuda:2> : !t
  // CHECK: plan.task "w" on <1, cuda:2> stream <compute, 0>
  %w = job.variable "w" init <zeros> : !t
  // CHECK: plan.task "r" on <1, cuda:2> stream <compute, 0>
  %r = op.add %up, %w : !t, !t -> !t
  // CHECK: plan.task "across" on <1, cuda:3> stream <copy_h2d, 0>
  %across = job.copy %r to <1, cuda:3> : !t
  // CHECK: plan.task "down" on <1, cuda:3> stream <copy_d2h, 0>
  %down = job.copy %across to <1, cpu:0> : !t
  // CHECK: plan.task "side" on <1, cpu:1> stream <compute, 0>
  %side = job.copy %down to <1, cpu:1> : !t
  // CHECK: plan.task "s" on <1, cpu:1> stream <compute, 0>
  // CHECK: op.relu %{{[^ ]+}} : tensor
  %s = op.relu %side {placement = #job.placement<cpu, [1:1]>} : !t -> !t
  // CHECK: plan.task "y" on <1, cpu:0> stream <compute, 0>
  job.output "y", %down : !t
}

// The slots that an op asks for are asked for by its task; all else that it says stays.

// CHECK-LABEL: plan.plan @slots
// CHECK-NEXT:    plan.task "x" {{.*}} attributes {slots = 3 : i64} {
// CHECK-NEXT:      job.input "x" {acme.note = "kept"} :
job.job @slots placement <cpu, [0:0]> {
  %x = job.input "x" {acme.note = "kept", slots = 3 : i64} : !t
}

// All results of an op are handed on.

// CHECK-LABEL: plan.plan @results
// CHECK:         %a, %b = plan.task "a" {{.*}} -> tensor<4xf32>, tensor<4xf32> {
// CHECK:           plan.yield %{{.+}}, %{{.+}} : tensor<4xf32>, tensor<4xf32>
// CHECK:         plan.task "y" {{.*}} ins(%b
job.job @results placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8xf32>
  %a, %b = op.split %x axis 0 sizes [4, 4] : tensor<8xf32> -> !t, !t
  job.output "y", %b : !t
}

// Dead ops become tasks too.

// CHECK-LABEL: plan.plan @dead
// CHECK:         plan.task "r"
job.job @dead placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %r = op.relu %x : !t -> !t
}

// What is no job is left alone.

// CHECK-LABEL: func.func @no_job
// CHECK-NEXT:    op.relu
func.func @no_job(%x: !t) -> !t {
  %r = op.relu %x : !t -> !t
  func.return %r : !t
}

// There are no pieces of a constant: what is unpacked is a copy.

// CHECK-LABEL: plan.plan @rows
// CHECK:         %[[ROWS:.+]] = plan.task "u.rows@0.cpu.0" {{.*}} ins(%c : tensor<3xi64>) -> tensor<3xi64> {
// CHECK:           job.copy
// CHECK:         plan.task "u" {{.*}} ins(%[[ROWS]] : tensor<3xi64>)
job.job @rows placement <cpu, [0:0]> {
  %c = op.constant dense<[0, 1, 2]> : tensor<3xi64>
  %u = op.unpack %c by 3 : tensor<3xi64> -> tensor<1xi64>
  job.output "u", %u : tensor<1xi64>
}
