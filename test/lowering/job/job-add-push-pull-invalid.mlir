// RUN: penstock-opt %s -p job-add-push-pull --verify-diagnostics --split-input-file

!t = tensor<4xf32>

job.job @user placement <cpu, [0:0]> {
  %x = job.input "x" : !t
}

// expected-error@+1 {{job-add-push-pull: @"System-Push-x" is the name of a job of the system}}
job.job @"System-Push-x" placement <cpu, [0:0]> {
  %z = job.foreign_input "z" : !t
}

// -----

!t = tensor<4xf32>

job.job @one placement <cpu, [0:0]> {
  %x = job.input "x" : !t
}

job.job @two placement <cpu, [0:0]> {
  // expected-error@+1 {{job-add-push-pull: 'x' is tensor<4xf32> on <0, cpu:0> in job 'one', but tensor<2xf32> on <0, cpu:0> in job 'two'}}
  %x = job.input "x" : tensor<2xf32>
}

// -----

!t = tensor<4xf32>

job.job @step placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // expected-error@+1 {{job-add-push-pull: job 'step' has both an input and an output 'x', which job 'System-Pull-x' has too}}
  job.output "x", %x : !t
}

// -----

job.job @cut placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xi1>
  %p, %n = op.non_zero %x : tensor<4xi1> -> tensor<1x4xi64>, tensor<i64>
  // expected-error@+1 {{job-add-push-pull: output 'p' is cut, which no job can pull}}
  job.output "p", %p cut by "n" axis 1 : tensor<1x4xi64>
  job.output "n", %n : tensor<i64>
}
