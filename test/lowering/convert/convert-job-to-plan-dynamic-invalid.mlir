// RUN: penstock-opt %s -p convert-job-to-plan --verify-diagnostics --split-input-file

// An input has to say how large it may be, by what fits its type.

job.job @inputs placement <cpu, [0:0]> {
  // expected-error@+1 {{convert-job-to-plan: input 'a' has unknown extents and no max_shape: tensor<?xf32>}}
  %a = job.input "a" : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: buffer 'b' has unknown extents and no max_shape: tensor<?xf32>}}
  %b = job.foreign_input "b" : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: max_shape must be a list of i64, got [8 : i64]}}
  %c = job.input "c" {max_shape = [8]} : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: the maximum [8, 5] is no shape of tensor<?x4xf32>}}
  %d = job.input "d" {max_shape = array<i64: 8, 5>} : tensor<?x4xf32>
  // expected-error@+1 {{convert-job-to-plan: the maximum [-1] is no shape of tensor<?xf32>}}
  %e = job.input "e" {max_shape = array<i64: -1>} : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: tensor<4xf32> is static and takes no maximum}}
  %f = job.input "f" {max_shape = array<i64: 4>} : tensor<4xf32>
}

// -----

// All else follows from the inputs, or cannot be.

job.job @others placement <cpu, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 8>} : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: variable 'w' has unknown extents: tensor<?xf32>}}
  %w = job.variable "w" init <zeros> : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: max_shape is for inputs, the rest follows from them}}
  %r = op.relu %x {max_shape = array<i64: 4>} : tensor<?xf32> -> tensor<?xf32>
}

// -----

// What ops say of the largest operands has to fit what their results are declared to be.

job.job @contradiction placement <cpu, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 8>} : tensor<?xf32>
  %y = job.input "y" {max_shape = array<i64: 6>} : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: with the largest shapes, shapes 8, 6 do not broadcast}}
  %z = op.add %x, %y : tensor<?xf32>, tensor<?xf32> -> tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: with the largest shapes, the result's type should be tensor<8xf32>, got tensor<4xf32>}}
  %r = op.relu %x : tensor<?xf32> -> tensor<4xf32>
}

// -----

// The middle of a tensor may grow as the tensor gets shorter: from 17 before the end to
// 17 behind the start are 14 of 20, but 16 of 16.

job.job @more_of_less placement <cpu, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 20>} : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: op.slice may make more of less: tensor<16xf32> of smaller operands, tensor<14xf32> of the largest}}
  %s = op.slice %x from [-17] to [17] by [1] : tensor<?xf32> -> tensor<?xf32>
  job.output "s", %s : tensor<?xf32>
}

// -----

// Parts on several devices have shapes that are known.

job.job @devices placement <cpu, [0:0-1]> {
  %x = job.input "x" {max_shape = array<i64: 8>} : tensor<?xf32>
  // expected-error@+1 {{convert-job-to-plan: op.relu has unknown extents, and runs on several devices}}
  %r = op.relu %x {sbp = #job.sbp<B>} : tensor<?xf32> -> tensor<?xf32>
}
