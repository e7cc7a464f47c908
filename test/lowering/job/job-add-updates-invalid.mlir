// RUN: penstock-opt %s -p job-add-updates --split-input-file --verify-diagnostics

job.job @no_variable placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  // expected-error @below {{job-add-updates: only variables are updated, and this is none}}
  job.update %g by %g with <sgd> : tensor<4xf32>
}

// -----

job.job @twice placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.update %w by %w with <sgd> : tensor<4xf32>
  // expected-error @below {{job-add-updates: variable 'w' is updated or assigned to twice}}
  job.assign %w to %w : tensor<4xf32>
}

// -----

job.job @taken placement <cpu, [0:0]> {
  %s = job.variable "w/momentum/buffer" init <ones> : tensor<2xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // expected-error @below {{job-add-updates: variable 'w/momentum/buffer' should be tensor<4xf32>, as the state of 'w', got tensor<2xf32>}}
  job.update %w by %w with <momentum> : tensor<4xf32>
}

// -----

job.job @step_taken placement <cpu, [0:0]> {
  %s = job.variable "step" init <ones> : tensor<f32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // expected-error @below {{job-add-updates: variable 'step' should be tensor<i64>, as it counts steps, got tensor<f32>}}
  job.update %w by %w with <adam> : tensor<4xf32>
}

// -----

job.job @dense placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %g = op.neg %w : tensor<4xf32> -> tensor<4xf32>
  // expected-error @below {{job-add-updates: optimizer 'sparse_adam' takes gradients of op.gather, got one of op.neg}}
  job.update %w by %g with <sparse_adam> : tensor<4xf32>
}
