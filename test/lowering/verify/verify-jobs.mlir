// RUN: penstock-opt %s -p verify-jobs --verify-diagnostics --split-input-file | filecheck %s

// What has one name in two jobs is one thing, whatever else differs.

// CHECK-LABEL: job.job @train
job.job @train placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <uniform, seed = 1> : tensor<4xf32>
  %a = op.add %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %a : tensor<4xf32>
}

// An input lies on the host, so that a job on a processor has it in the same place.

job.job @test placement <cpu, [0:0]> {
  %y = job.input "y" : tensor<4xf32>
  %z = job.input "z" : tensor<8xf32>
  job.output "z", %z : tensor<8xf32>
}

// -----

// A variable has one type, one initialiser with one seed, and lies in one way.

job.job @train placement <cuda, [0:0]> {
  %a = job.variable "a" init <uniform, seed = 1> : tensor<4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %c = job.variable "c" init <zeros> : tensor<4xf32>
}

job.job @eval placement <cpu, [0:0]> {
  // expected-error@+1 {{verify-jobs: 'a' is tensor<4xf32> init <uniform, seed = 1> on <0, cuda:0> in job 'train', but tensor<4xf32> init <uniform, seed = 2> on <0, cuda:0> in job 'eval'}}
  %a = job.variable "a" init <uniform, seed = 2> {placement = #job.placement<cuda, [0:0]>} : tensor<4xf32>
  // expected-error@+1 {{verify-jobs: 'b' is tensor<4xf32> init <zeros> on <0, cuda:0> in job 'train', but tensor<4xf32> init <zeros> on <0, cpu:0> in job 'eval'}}
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  // expected-error@+1 {{verify-jobs: 'c' is tensor<4xf32> init <zeros> on <0, cuda:0> in job 'train', but tensor<4xf32> init <zeros> on <cpu, [0:0-1]> as <S(0)> in job 'eval'}}
  %c = job.variable "c" init <zeros> {placement = #job.placement<cpu, [0:0-1]>, sbp = #job.sbp<S(0)>} : tensor<4xf32>
}

// -----

job.job @makes placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}

job.job @takes placement <cpu, [1:0]> {
  // expected-error@+1 {{verify-jobs: 'y' is tensor<4xf32> on <0, cpu:0> in job 'makes', but tensor<4xf32> on <1, cpu:0> in job 'takes'}}
  %y = job.input "y" : tensor<4xf32>
  // expected-error@+1 {{verify-jobs: 'x' is an input of job 'makes', but a variable of job 'takes'}}
  %x = job.variable "x" init <zeros> : tensor<4xf32>
}

// -----

job.job @step placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{verify-jobs: job 'step' has both an input and an output 'x', which job 'look' has too}}
  job.output "x", %x : tensor<4xf32>
}

job.job @look placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
}

// -----

// What has open extents is of one largest size, in all jobs that say one.

job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 8>} : tensor<?xf32>
  job.output "y", %x : tensor<?xf32>
}

job.job @large placement <cpu, [0:0]> {
  // expected-error@+1 {{verify-jobs: 'x' is at most [8] in job 'small', but [9] in job 'large'}}
  %x = job.input "x" {max_shape = array<i64: 9>} : tensor<?xf32>
  %y = job.input "y" {max_shape = array<i64: 9>} : tensor<?xf32>
}

// -----

// Jobs of which each waits for what another one makes can never run. One that waits for
// them is no part of the ring.
job.job @last placement <cpu, [0:0]> {
  %x = job.input "r" : tensor<4xf32>
  job.output "s", %x : tensor<4xf32>
}
job.job @a placement <cpu, [0:0]> {
  // expected-error@+1 {{jobs wait for each other for ever: 'a' takes 'p' of 'c', 'c' takes 'q' of 'b', 'b' takes 'r' of 'a'}}
  %x = job.input "p" : tensor<4xf32>
  job.output "r", %x : tensor<4xf32>
}
job.job @b placement <cpu, [0:0]> {
  %x = job.input "r" : tensor<4xf32>
  job.output "q", %x : tensor<4xf32>
}
job.job @c placement <cpu, [0:0]> {
  %x = job.input "q" : tensor<4xf32>
  job.output "p", %x : tensor<4xf32>
}

// -----

// Whatever may begin with what a job outside of the ring makes can run.
job.job @first placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "p", %x : tensor<4xf32>
}
job.job @a placement <cpu, [0:0]> {
  %x = job.input "p" : tensor<4xf32>
  job.output "q", %x : tensor<4xf32>
}
job.job @b placement <cpu, [0:0]> {
  %x = job.input "q" : tensor<4xf32>
  job.output "p", %x : tensor<4xf32>
}

// -----

// What jobs hand on has one place, so it comes once in a run of each.

job.job @make placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %r = op.repeat %x times 2 : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{verify-jobs: job 'make' makes 'y' 2 times in a run, and shares it with job 'take': what jobs share comes once}}
  job.output "y", %r : tensor<4xf32>
}

job.job @take placement <cpu, [0:0]> {
  // expected-error@+1 {{verify-jobs: job 'take' takes 'y' 3 times in a run, and shares it with job 'make': what jobs share comes once}}
  %y = job.input "y" : tensor<4xf32>
  %s = op.acc %y every 3 : tensor<4xf32> -> tensor<4xf32>
  job.output "s", %s : tensor<4xf32>
}

// -----

// An input that is repeated, or cut in pieces, comes once.

job.job @once placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}

job.job @often placement <cpu, [0:0]> {
  %y = job.input "y" : tensor<4xf32>
  %r = op.repeat %y times 3 : tensor<4xf32> -> tensor<4xf32>
  %s = op.acc %r every 3 : tensor<4xf32> -> tensor<4xf32>
  job.output "s", %s : tensor<4xf32>
}
