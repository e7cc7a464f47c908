// RUN: penstock-opt %s --pipeline cuda | filecheck %s

// What is copied to the host keeps no ops apart: the steps of a norm are one kernel,
// with all that is an output as results.

// CHECK:      launch.kernel @fused_reduce_mean_reduce_mean_0 target "cuda"
// CHECK-SAME:   %out0: memref<16x32xf32>, %out1: memref<16x1xf32>, %out2: memref<16x1xf32>)
// CHECK-NOT:  launch.kernel
!r = tensor<16x32xf32>
!o = tensor<16x1xf32>
job.job @norm placement <cpu, [0:0]> {
  %x = job.input "x" : !r
  %m = op.reduce_mean %x axes [1] keepdims : !r -> !o
  job.output "mean", %m : !o
  %d = op.sub %x, %m : !r, !o -> !r
  %q = op.mul %d, %d : !r, !r -> !r
  %v = op.reduce_mean %q axes [1] keepdims : !r -> !o
  job.output "variance", %v : !o
  %n = op.div %d, %v : !r, !o -> !r
  job.output "n", %n : !r
}
