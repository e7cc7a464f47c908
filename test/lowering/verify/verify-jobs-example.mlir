// RUN: penstock-opt %s -p verify-jobs --verify-diagnostics

// Two jobs mean different things by the variable `w`.

// EXAMPLE-BEFORE
job.job @train placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4xf32>
}
job.job @eval placement <cpu, [0:0]> {
  // expected-error@+1 {{verify-jobs: 'w' is tensor<4xf32> init <zeros> on <0, cpu:0> in job 'train', but tensor<8xf32> init <zeros> on <0, cpu:0> in job 'eval'}}
  %w = job.variable "w" init <zeros> : tensor<8xf32>
}
// EXAMPLE-END
