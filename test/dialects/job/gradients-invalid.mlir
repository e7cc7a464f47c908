// RUN: penstock-opt %s --split-input-file --verify-diagnostics

job.job @vector placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // expected-error @below {{the loss should be a scalar float, got tensor<4xf32>}}
  %g = job.gradients of %w by %w : tensor<4xf32>, tensor<4xf32>
}

// -----

job.job @integer_loss placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<i64>
  // expected-error @below {{the loss should be a scalar float, got tensor<i64>}}
  %g = job.gradients of %w by %w : tensor<i64>, tensor<i64>
}

// -----

job.job @integers placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xi64>
  %loss = job.input "loss" : tensor<f32>
  // expected-error @below {{there is no gradient by a tensor<4xi64>}}
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xi64>
}

// -----

job.job @nothing placement <cpu, [0:0]> {
  %loss = job.input "loss" : tensor<f32>
  // expected-error @below {{expected at least one value to derive by}}
  "job.gradients"(%loss) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<f32>) -> ()
}
