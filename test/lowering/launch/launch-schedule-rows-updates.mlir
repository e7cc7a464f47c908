// RUN: penstock-opt %s --pipeline cpu --split-input-file | filecheck %s

// Sums of columns are computed in vectors with what uses them, also where all columns
// load the same element.
// CHECK-LABEL: launch.program @update
job.job @update placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<64x128xf32>
  %rate = job.input "rate" : tensor<f32>
  // CHECK: launch.kernel @fused_reduce_sum_0
  // CHECK: schedule = #launch.vector_loops<columns>
  %h = op.reduce_sum %x axes [0] : tensor<64x128xf32> -> tensor<128xf32>
  %i = op.mul %h, %rate : tensor<128xf32>, tensor<f32> -> tensor<128xf32>
  job.output "i", %i : tensor<128xf32>
}

// -----

// The sum over one element is one, too.
// CHECK-LABEL: launch.program @one
job.job @one placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x128xf32>
  %rate = job.input "rate" : tensor<f32>
  // CHECK: kernel.row
  // CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d1)>
  %h = op.reduce_sum %x axes [0] : tensor<1x128xf32> -> tensor<128xf32>
  %i = op.mul %h, %rate : tensor<128xf32>, tensor<f32> -> tensor<128xf32>
  job.output "i", %i : tensor<128xf32>
}
