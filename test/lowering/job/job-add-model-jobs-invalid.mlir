// RUN: penstock-opt %s -p job-add-model-jobs --verify-diagnostics --split-input-file

job.job @user placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<8xf32>
}

// expected-error@+1 {{job-add-model-jobs: @"System-ModelLoad" is the name of a job of the system}}
job.job @"System-ModelLoad" placement <cpu, [0:0]> {
  %z = job.foreign_input "z" : tensor<8xf32>
}

// -----

job.job @one placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<8xf32>
}

job.job @two placement <cpu, [0:0]> {
  // expected-error@+1 {{job-add-model-jobs: 'w' is tensor<8xf32> init <ones> on <0, cpu:0> in job 'one', but tensor<8xf32> init <zeros> on <0, cpu:0> in job 'two'}}
  %w = job.variable "w" init <zeros> : tensor<8xf32>
}

// -----

job.job @part placement <cpu, [0:0]> {
  // expected-error@+1 {{job-add-model-jobs: variable 'w' is a part, so it cannot be loaded alone}}
  %w = job.variable "w" init <ones> part [0] of [16] : tensor<8xf32>
}
