// RUN: penstock-opt %s -p job-infer-sbp --verify-diagnostics --split-input-file --allow-unregistered-dialect

// All that is wrong is listed, each with what falls and why.

job.job @unsatisfiable placement <cpu, [0:0-2]> {
  %x = job.input "x" : tensor<3x2xf32>
  // expected-error@+1 {{job-infer-sbp: no SBP of op.relu fits #job.placement<cpu, [0:0-2]>: not (S(0)) -> (S(0)) because results (S(1)) are asked for; not (S(1)) -> (S(1)) because operand 0 does not fit: its axis 1 of 2 has no 3 parts; not (B) -> (B) because results (S(1)) are asked for}}
  %r = op.relu %x {sbp = #job.sbp<S(1)>} : tensor<3x2xf32> -> tensor<3x2xf32>
  // expected-error@+1 {{job-infer-sbp: no SBP of op.softmax fits #job.placement<cpu, [0:0-2]>: not (S(0)) -> (S(0)) because results (P) are asked for; not (B) -> (B) because results (P) are asked for}}
  %s = op.softmax %x {sbp = #job.sbp<P>} : tensor<3x2xf32> -> tensor<3x2xf32>
}

// -----

// A variable has no terms.

job.job @terms placement <cpu, [0:0-1]> {
  // expected-error@+1 {{job-infer-sbp: no SBP of job.variable fits #job.placement<cpu, [0:0-1]>: not () -> (B) because results (P) are asked for; not () -> (S(0)) because results (P) are asked for}}
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<P>} : tensor<4xf32>
}

// -----

job.job @mesh placement <cpu, [0:0-3], hierarchy = [2, 2]> {
  // expected-error@+1 {{job-infer-sbp: no SBP of job.variable fits #job.placement<cpu, [0:0-3], hierarchy = [2, 2]> on dimension 1: not () -> (B) because results (S(0)) are asked for; not () -> (S(0)) because result 0 does not fit: its axis 0 of 1 has no 2 parts}}
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0), S(0)>} : tensor<3xf32>
}

// -----

// Booleans have no sums.

job.job @booleans placement <cpu, [0:0-1]> {
  %x = job.input "x" {sbp = #job.sbp<B>} : tensor<1xi1>
  // expected-error@+1 {{job-infer-sbp: no SBP of op.reshape fits #job.placement<cpu, [0:0-1]>: not (P) -> (P) because operand 0 does not fit: booleans have no sums; not (B) -> (B) because results (P) are asked for}}
  %r = op.reshape %x to [1, 1] {sbp = #job.sbp<P>} : tensor<1xi1> -> tensor<1x1xi1>
}

// -----

// Operands may be asked for too.

job.job @operands placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{job-infer-sbp: no SBP of op.softmax fits #job.placement<cpu, [0:0-1]>: not (B) -> (B) because operands (S(0)) are asked for}}
  %r = op.softmax %x {operand_sbp = [#job.sbp<S(0)>]} : tensor<4xf32> -> tensor<4xf32>
}

// -----

job.job @entries placement <cpu, [0:0-1]> {
  // expected-error@+1 {{job-infer-sbp: sbp should have one entry for each of the 1 dimensions of #job.placement<cpu, [0:0-1]>, got #job.sbp<B, B>}}
  %x = job.input "x" {sbp = #job.sbp<B, B>} : tensor<4xf32>
  // expected-error@+1 {{job-infer-sbp: sbp should be a #job.sbp for each result, got 1 : i64}}
  %r = op.relu %x {sbp = 1 : i64} : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{job-infer-sbp: operand_sbp should be a #job.sbp for each operand, got []}}
  %s = op.relu %x {operand_sbp = []} : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{job-infer-sbp: test.op cannot run on several devices: it is no op on tensors}}
  %t = "test.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
}
