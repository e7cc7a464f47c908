// RUN: penstock-opt %s --allow-unregistered-dialect | filecheck %s
// RUN: penstock-opt %s --allow-unregistered-dialect --print-op-generic | penstock-opt --allow-unregistered-dialect | filecheck %s

// Every operation and attribute prints as it was written.

// CHECK-LABEL: job.job @square placement <cpu, [0:0]> {
job.job @square placement <cpu, [0:0]> {
  // CHECK-NEXT: %x = job.input "x" : tensor<4xf32>
  %x = job.input "x" : tensor<4xf32>
  // CHECK-NEXT: %y = op.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %y = op.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: job.output "y", %y : tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}

// Any op may have a placement and a number of slots, and a job other attributes.

// CHECK-LABEL: job.job @attributes placement <cuda, [0:1]> attributes {acme.origin = "a.onnx"} {
job.job @attributes placement <cuda, [0:1]> attributes {acme.origin = "a.onnx"} {
  // CHECK-NEXT: %x = job.input "x" {slots = 2 : i64} : tensor<4xf32>
  %x = job.input "x" {slots = 2 : i64} : tensor<4xf32>
  // CHECK-NEXT: %d = job.copy %x to <0, cuda:0> : tensor<4xf32>
  %d = job.copy %x to <0, cuda:0> : tensor<4xf32>
  // CHECK-NEXT: %r = op.relu %d {placement = #job.placement<cuda, [0:0]>} : tensor<4xf32> -> tensor<4xf32>
  %r = op.relu %d {placement = #job.placement<cuda, [0:0]>} : tensor<4xf32> -> tensor<4xf32>
}

// A boxing says how its tensor lies before and after it.

// CHECK-LABEL: job.job @boxing
job.job @boxing placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4x8xf32>
  // CHECK: %s = job.boxing %x from <B> on <cpu, [0:0]> to <S(1)> on <cpu, [0:0-1]> : tensor<4x8xf32>
  %s = job.boxing %x from <B> on <cpu, [0:0]> to <S(1)> on <cpu, [0:0-1]> : tensor<4x8xf32>
  // CHECK-NEXT: %m = job.boxing %s from <S(1)> on <cpu, [0:0-1]> to <P, S(0)> on <cuda, [0:0-3], hierarchy = [2, 2]> : tensor<4x8xf32>
  %m = job.boxing %s from <S(1)> on <cpu, [0:0-1]> to <P, S(0)> on <cuda, [0:0-3], hierarchy = [2, 2]> : tensor<4x8xf32>
}

// An input and an output may have the same name.

// CHECK-LABEL: job.job @same_name
job.job @same_name placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // CHECK: job.output "x", %x : tensor<4xf32>
  job.output "x", %x : tensor<4xf32>
}

// CHECK-LABEL: job.job @initialisers
job.job @initialisers placement <cpu, [0:0]> {
  // CHECK-NEXT: %a = job.variable "a" init <xavier_uniform, seed = 7> : tensor<784x256xf32>
  %a = job.variable "a" init <xavier_uniform, seed = 7> : tensor<784x256xf32>
  // CHECK-NEXT: %b = job.variable "b" also ["b/1", "b/2"] init <zeros> : tensor<256xf32>
  %b = job.variable "b" also ["b/1", "b/2"] init <zeros> : tensor<256xf32>
  // CHECK-NEXT: %c = job.variable "c" init <npz, file = "weights.npz", name = "w1"> : tensor<4xf32>
  %c = job.variable "c" init <npz, file = "weights.npz", name = "w1"> : tensor<4xf32>
  // CHECK-NEXT: %p = job.variable "a/p" init <zeros> part [392, 0] of [784, 256] : tensor<392x256xf32>
  %p = job.variable "a/p" init <zeros> part [392, 0] of [784, 256] : tensor<392x256xf32>
  // CHECK-NEXT: %u = job.variable "u" init <ones> winograd [32, 64, 3, 3] : tensor<36x32x64xf32>
  %u = job.variable "u" init <ones> winograd [32, 64, 3, 3] : tensor<36x32x64xf32>
  // CHECK-NEXT: %d = job.variable "d" init <normal, seed = 0, mean = -0.5, std = 1.0e-05> : tensor<4xf32>
  %d = job.variable "d" init <normal, seed = 0, mean = -0.5, std = 1.0e-5> : tensor<4xf32>
  // CHECK-NEXT: %e = job.variable "e" init <constant, value = -3> : tensor<4xi64>
  %e = job.variable "e" init <constant, value = -3> : tensor<4xi64>
}

// A job may have no op.

// CHECK-LABEL: job.job @empty placement <cpu, [0:0]> {
// CHECK-NEXT:  }
job.job @empty placement <cpu, [0:0]> {}

// What an input of open extents says of them.

// CHECK-LABEL: job.job @open
job.job @open placement <cpu, [0:0]> {
  // CHECK-NEXT: %x = job.input "x" {max_shape = array<i64: 64, 784>} : tensor<?x784xf32>
  %x = job.input "x" {max_shape = array<i64: 64, 784>} : tensor<?x784xf32>
}

// What waits for nothing is as it is.

// CHECK-LABEL: job.job @after
job.job @after placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.input "w" : tensor<8xi1>
  // CHECK: %y = job.after %x, %w, %x : tensor<4xf32>, tensor<8xi1>, tensor<4xf32>
  %y = job.after %x, %w, %x : tensor<4xf32>, tensor<8xi1>, tensor<4xf32>
  // CHECK-NEXT: %z = job.after %y {acme.hint = "no more"} : tensor<4xf32>
  %z = job.after %y {acme.hint = "no more"} : tensor<4xf32>
}

// CHECK-LABEL: "device"() {at = #job.device<0, cuda:1>}
"device"() {at = #job.device<0, cuda:1>} : () -> ()

// The devices of a placement are put in order, and neighbours joined to ranges.

// CHECK-LABEL: "ranges"() {at = #job.placement<cuda, [0:0-3, 1:1, 1:3]>}
"ranges"() {at = #job.placement<cuda, [1:3, 0:2-3, 1:1, 0:0-2]>} : () -> ()

// A hierarchy of one row is what a placement has anyway.

// CHECK-LABEL: "hierarchy"() {a = #job.placement<cuda, [0:0-3, 1:0-3], hierarchy = [2, 4]>, b = #job.placement<cuda, [0:0-1]>}
"hierarchy"() {a = #job.placement<cuda, [0:0-3, 1:0-3], hierarchy = [2, 4]>, b = #job.placement<cuda, [0:0-1], hierarchy = [2]>} : () -> ()

// CHECK-LABEL: "sbp"() {a = #job.sbp<S(0), B>, b = #job.sbp<P>, c = #job.split<1>, d = #job.broadcast, e = #job.partial}
"sbp"() {a = #job.sbp<S(0), B>, b = #job.sbp<P>, c = #job.split<1>, d = #job.broadcast, e = #job.partial} : () -> ()

// What comes from outside and goes there has buffers, which ports may be named like.

// CHECK-LABEL: job.job @foreign
job.job @foreign placement <cpu, [0:0]> {
  // CHECK-NEXT: %x = job.foreign_input "x" : tensor<4xf32>
  %x = job.foreign_input "x" : tensor<4xf32>
  // CHECK-NEXT: job.foreign_output "x", %x : tensor<4xf32>
  job.foreign_output "x", %x : tensor<4xf32>
  // CHECK-NEXT: job.output "x", %x : tensor<4xf32>
  job.output "x", %x : tensor<4xf32>
}
