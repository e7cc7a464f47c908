// RUN: penstock-opt %s -p convert-job-to-plan --verify-diagnostics --split-input-file
// RUN: not penstock-opt %s -p convert-job-to-plan --split-input-file 2>&1 | filecheck %s

!t = tensor<4xf32>

// All ops that cannot be tasks are listed, in all jobs, and no job is converted.

// CHECK-NOT: plan.plan
job.job @ops placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // expected-error@+1 {{convert-job-to-plan: test.op cannot be a task: it is no op on tensors}}
  %a = "test.op"(%x) : (!t) -> !t
  // expected-error@+1 {{convert-job-to-plan: arith.addf cannot be a task: it is no op on tensors}}
  %b = arith.addf %x, %x : !t
}

job.job @other placement <cpu, [0:0]> {
  // expected-error@+1 {{convert-job-to-plan: test.op cannot be a task: it is no op on tensors}}
  %a = "test.op"() : () -> !t
}

job.job @good placement <cpu, [0:0]> {
  %x = job.input "x" : !t
}

// -----

// Unknown extents are reported where they begin, and not at all that follows from them.

job.job @unknown placement <cpu, [0:0]> {
  // expected-error@+1 {{convert-job-to-plan: input 'x' has unknown extents and no max_shape: tensor<?x4xf32>}}
  %x = job.input "x" : tensor<?x4xf32>
  // expected-error@+1 {{convert-job-to-plan: variable 'w' has unknown extents: tensor<4x?xf32>}}
  %w = job.variable "w" init <zeros> : tensor<4x?xf32>
  %y = op.exp %x : tensor<?x4xf32> -> tensor<?x4xf32>
  %z = op.exp %w : tensor<4x?xf32> -> tensor<4x?xf32>
  %k = job.input "k" : tensor<2x4xf32>
  // expected-error@+1 {{convert-job-to-plan: a result of op.relu has unknown extents: tensor<2x?xf32>}}
  %r = op.relu %k : tensor<2x4xf32> -> tensor<2x?xf32>
  job.output "y", %y : tensor<?x4xf32>
  job.output "z", %z : tensor<4x?xf32>
  job.output "r", %r : tensor<2x?xf32>
}

// -----

!t = tensor<4xf32>

job.job @slots placement <cpu, [0:0]> {
  // expected-error@+1 {{convert-job-to-plan: slots must be an i64 of 1 to 16384, got 0 : i64}}
  %a = job.input "a" {slots = 0 : i64} : !t
  // expected-error@+1 {{convert-job-to-plan: slots must be an i64 of 1 to 16384, got 1 : i32}}
  %b = job.input "b" {slots = 1 : i32} : !t
  // expected-error@+1 {{convert-job-to-plan: slots must be an i64 of 1 to 16384, got "two"}}
  %c = job.input "c" {slots = "two"} : !t
}

// -----

!t = tensor<4xf32>

job.job @no_sbp placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // expected-error@+1 {{convert-job-to-plan: op.relu has no sbp; job-infer-sbp finds it}}
  %r = op.relu %x {placement = #job.placement<cuda, [0:0-1]>} : !t -> !t
  // expected-error@+1 {{convert-job-to-plan: sbp should have one entry for each of the 1 dimensions of #job.placement<cuda, [0:0-1]>, got #job.sbp<B, B>}}
  %s = op.relu %x {placement = #job.placement<cuda, [0:0-1]>, sbp = #job.sbp<B, B>} : !t -> !t
  // expected-error@+1 {{convert-job-to-plan: tensor<4xf32> cannot be #job.sbp<S(0)> on #job.placement<cuda, [0:0-4]>: its axis 0 of 4 has no 5 parts}}
  %u = op.relu %x {placement = #job.placement<cuda, [0:0-4]>, sbp = #job.sbp<S(0)>} : !t -> !t
}

// -----

!t = tensor<4xf32>

job.job @no_boxing placement <cpu, [0:0-1]> {
  %x = job.input "x" : !t
  // expected-error@+1 {{convert-job-to-plan: operand 0 lies as #job.sbp<B> on #job.placement<cpu, [0:0]>, but is used on #job.placement<cpu, [0:0-1]>; job-insert-boxing lays it anew}}
  %r = op.relu %x {sbp = #job.sbp<B>} : !t -> !t
  // expected-error@+1 {{convert-job-to-plan: operand 0 lies as #job.sbp<B> on #job.placement<cpu, [0:0-1]>, but is used as #job.sbp<S(0)> on #job.placement<cpu, [0:0-1]>; job-insert-boxing lays it anew}}
  %s = op.relu %r {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>]} : !t -> !t
  // expected-error@+1 {{convert-job-to-plan: operand 0 lies as #job.sbp<B> on #job.placement<cpu, [0:0-1]>, but is used as #job.sbp<P> on #job.placement<cpu, [0:0-1]>; job-insert-boxing lays it anew}}
  %b = job.boxing %r from <P> on <cpu, [0:0-1]> to <B> on <cpu, [0:0]> : !t
  // expected-error@+1 {{convert-job-to-plan: operand 0 lies as #job.sbp<B> on #job.placement<cpu, [0:0-1]>, but is used on #job.placement<cuda, [0:0]>; job-insert-boxing lays it anew}}
  %c = job.copy %r to <0, cuda:0> : !t
  // expected-error@+1 {{convert-job-to-plan: operand 0 lies as #job.sbp<B> on #job.placement<cpu, [0:0-1]>, but is used on #job.placement<cpu, [0:0]>; job-insert-boxing lays it anew}}
  job.output "y", %r : !t
}

// -----

!t = tensor<4xf32>

// What a person writes has to be something that the op can do.

job.job @no_signature placement <cpu, [0:0-3], hierarchy = [2, 2]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0), B>} : !t
  // expected-error@+1 {{convert-job-to-plan: op.relu has no SBP signature (S(0)) -> (P)}}
  %r = op.relu %w {sbp = #job.sbp<P, B>} : !t -> !t
}

// -----

!t = tensor<4xf32>

// A job that has not been placed may read from where it cannot.

job.job @no_copies placement <cuda, [0:1]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  // expected-error@+1 {{convert-job-to-plan: operand 1 lies on #job.device<0, cpu:0>, but is used on #job.device<0, cuda:1>; job-place inserts copies}}
  %r = op.add %w, %x : !t, !t -> !t
  // expected-error@+1 {{convert-job-to-plan: operand 0 lies on #job.device<0, cuda:1>, but is used on #job.device<0, cpu:0>; job-place inserts copies}}
  job.output "y", %r : !t
}

// -----

// Acts of one launch are counted together: 1000 x 1000.
// expected-error@+1 {{convert-job-to-plan: op.repeat acts in a launch 1000000 times, which may be 16384 at most}}
job.job @repeated placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %r = op.repeat %x times 1000 : tensor<4xf32> -> tensor<4xf32>
  %s = op.repeat %r times 1000 : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %s : tensor<4xf32>
}

// -----

// A loop runs on one CPU.

job.job @devices placement <cpu, [0:0-1]> {
  // expected-error@+1 {{convert-job-to-plan: op.loop runs on one device, not on #job.placement<cpu, [0:0-1]>: op-spread-loops and op-select-branches come before}}
  op.loop 3 {
  ^bb0(%i: tensor<i64>):
    op.yield
  }
}

// -----

job.job @members placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{convert-job-to-plan: op.loop has ops on other devices: op-spread-loops and op-select-branches come before}}
  %y = op.loop 3 carries(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %s: tensor<4xf32>):
    %r = op.neg %s {placement = #job.placement<cpu, [0:1]>} : tensor<4xf32> -> tensor<4xf32>
    op.yield %r : tensor<4xf32>
  }
  job.output "y", %y : tensor<4xf32>
}

// -----

// A loop that could not be spread says why.

job.job @fails placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{convert-job-to-plan: op.loop has ops on other devices: op.gather can fail where it is not to run}}
  %y = op.loop 3 carries(%x : tensor<4xf32>) -> tensor<4xf32> attributes {no_unroll = "op.gather can fail"} {
  ^bb0(%i: tensor<i64>, %s: tensor<4xf32>):
    %r = op.neg %s {placement = #job.placement<cpu, [0:1]>} : tensor<4xf32> -> tensor<4xf32>
    op.yield %r : tensor<4xf32>
  }
  job.output "y", %y : tensor<4xf32>
}

// -----

job.job @unknown placement <npu, [0:0]> {
  // expected-error@+1 {{convert-job-to-plan: op.loop runs on a CPU or GPU, not on #job.device<0, npu:0>: op-unroll-loops and op-select-branches come before}}
  op.loop 3 {
  ^bb0(%i: tensor<i64>):
    op.yield
  }
}

// -----

// Iterations of a loop on one device run one after the other.

job.job @slots_in_a_body placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %b = op.loop 3 carries(%a : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    // expected-error@+1 {{convert-job-to-plan: op.exp in a body has one slot, as iterations run one after the other: op.loop may ask for slots}}
    %d = op.exp %c {slots = 2 : i64} : tensor<4xf32> -> tensor<4xf32>
    op.yield %d : tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
}
