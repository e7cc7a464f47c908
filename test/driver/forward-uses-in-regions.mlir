// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// A value of a region is not there for the operation that has the region.
job.job @own placement <cpu, [0:0]> {
  // expected-error@+1 {{value %q is used, but not defined}}
  %f = op.fused %q : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %q = op.relu %p : tensor<4xf32> -> tensor<4xf32>
    op.yield %q : tensor<4xf32>
  }
  job.output "y", %f : tensor<4xf32>
}

// -----

// Nor is an argument of a block.
// expected-error@+1 {{value %a is used, but not defined}}
linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
^bb0(%x: f32, %s: f32):
  launch.kernel @k target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
  }
  linalg.yield %x : f32
}

// -----

// A use before the definition in the same region is one error, at the use.
job.job @later placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %f = op.fused %x : tensor<4xf32> -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    // expected-error@+1 {{op.relu: operand #0 (%r) does not dominate this use: it is defined at line 34}}
    %q = op.relu %r : tensor<4xf32> -> tensor<4xf32>
    %r = op.relu %p : tensor<4xf32> -> tensor<4xf32>
    op.yield %q : tensor<4xf32>
  }
  job.output "y", %f : tensor<4xf32>
}
