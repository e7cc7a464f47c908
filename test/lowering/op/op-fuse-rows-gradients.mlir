// RUN: penstock-opt %s -p op-fuse-rows --split-input-file | filecheck %s

// The gradient of a softmax is computed with what makes one of its rows, and with what
// follows.

!x = tensor<64x32xf32>

// CHECK-LABEL: job.job @softmax
job.job @softmax placement <cpu, [0:0]> {
  %y = job.input "y" : !x
  %g = job.input "g" : !x
  %m = job.input "m" : !x
  // CHECK: %r = op.fused %g, %m, %y
  // CHECK: op.mul
  // CHECK-NEXT: op.softmax_gradient
  // CHECK-NEXT: op.mul
  %d = op.mul %g, %m : !x, !x -> !x
  %s = op.softmax_gradient %y, %d : !x, !x -> !x
  %r = op.mul %s, %m : !x, !x -> !x
  job.output "r", %r : !x
}

// -----

!x = tensor<64x32xf32>

// What the gradient of a scale sums up over all rows is computed in the passes over rows
// of the gradient of the input, as means and deviations are; the sums have other rows.

// CHECK-LABEL: job.job @layer_norm
job.job @layer_norm placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %g = job.input "g" : !x
  %s = job.variable "s" init <ones> : tensor<32xf32>
  // CHECK: op.fused
  // CHECK: op.layer_norm_gradient
  // CHECK: op.reduce_mean
  // CHECK: op.reduce_mean
  // CHECK: %[[TERMS:.+]] = op.mul %g_1, %h
  // CHECK: op.yield %[[TERMS]], %r_1
  // CHECK: op.reduce_sum %gh axes [0] {no_rows = "rows: those of op.layer_norm_gradient are others"}
  %r = op.layer_norm_gradient %x, %g, %s : !x, !x, tensor<32xf32> -> !x
  %m = op.reduce_mean %x axes [1] keepdims : !x -> tensor<64x1xf32>
  %d = op.sub %x, %m : !x, tensor<64x1xf32> -> !x
  %q = op.mul %d, %d : !x, !x -> !x
  %v = op.reduce_mean %q axes [1] keepdims : !x -> tensor<64x1xf32>
  %e = op.constant dense<1.0e-05> : tensor<f32>
  %ve = op.add %v, %e : tensor<64x1xf32>, tensor<f32> -> tensor<64x1xf32>
  %f = op.rsqrt %ve : tensor<64x1xf32> -> tensor<64x1xf32>
  %h = op.mul %d, %f : !x, tensor<64x1xf32> -> !x
  %gh = op.mul %g, %h : !x, !x -> !x
  %gs = op.reduce_sum %gh axes [0] : !x -> tensor<32xf32>
  %gb = op.reduce_sum %g axes [0] : !x -> tensor<32xf32>
  job.output "r", %r : !x
  job.output "gs", %gs : tensor<32xf32>
  job.output "gb", %gb : tensor<32xf32>
}
