// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @no_variable placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{the target should be the result of a job.variable, got that of job.input}}
  job.assign %x to %x : tensor<4xf32>
}

// -----

job.job @twice placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.assign %x to %w : tensor<4xf32>
  // expected-error@+1 {{variable 'w' is assigned twice}}
  job.assign %x to %w : tensor<4xf32>
}

// -----

job.job @types placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf64>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // expected-error@+1 {{attribute tensor<4xf64> expected from variable 'T', but got tensor<4xf32>}}
  "job.assign"(%x, %w) : (tensor<4xf64>, tensor<4xf32>) -> ()
}

// -----

job.job @twice_to_a_state placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %s = job.state : tensor<4xf32>
  // expected-error@+1 {{a state is assigned twice}}
  job.assign %x to %s : tensor<4xf32>
  // expected-error@+1 {{a state is assigned twice}}
  job.assign %x to %s : tensor<4xf32>
}
