// RUN: penstock-opt %s -p op-infer-shapes --verify-diagnostics --split-input-file

// All ops that do not fit are reported, and the ops after them are checked against the
// types that are written.

job.job @all_errors placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x3xf32>
  %r = op.reshape %x to [2, -1] : tensor<4x3xf32> -> tensor<?x?xf32>
  // expected-error@+1 {{op-infer-shapes: cannot reshape 12 elements to [5]}}
  %s = op.reshape %r to [5] : tensor<?x?xf32> -> tensor<5xf32>
  // expected-error@+1 {{op-infer-shapes: the result's type should be tensor<6x2xf32>, got tensor<?x3xf32>}}
  %t = op.transpose %r by [1, 0] : tensor<?x?xf32> -> tensor<?x3xf32>
  // expected-error@+1 {{op-infer-shapes: op test.op has no shape inference}}
  %u = "test.op"() : () -> tensor<?xf32>
  %v = op.concat %s, %u axis 0 : tensor<5xf32>, tensor<?xf32> -> tensor<?xf32>
  job.output "t", %t : tensor<?x3xf32>
  job.output "v", %v : tensor<?xf32>
}

job.job @another_job placement <cpu, [0:0]> {
  // expected-error@+1 {{op-infer-shapes: op test.op has no shape inference}}
  %u = "test.op"() : () -> tensor<?xf32>
}

// -----

// An error inside a fused op is reported where it is.

job.job @fused placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = job.input "y" : tensor<3xf32>
  %r = op.reshape %x to [4] : tensor<4xf32> -> tensor<?xf32>
  %f = op.fused %r, %y : tensor<?xf32>, tensor<3xf32> -> tensor<?xf32> {
  ^bb0(%p: tensor<?xf32>, %q: tensor<3xf32>):
    // expected-error@+1 {{op-infer-shapes: shapes 4, 3 do not broadcast}}
    %s = op.add %p, %q : tensor<?xf32>, tensor<3xf32> -> tensor<?xf32>
    op.yield %s : tensor<?xf32>
  }
  job.output "z", %f : tensor<?xf32>
}
