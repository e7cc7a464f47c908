// RUN: penstock-opt %s --pipeline cuda | filecheck %s

// Attention is computed in blocks of as many queries and keys as shared memory holds, and
// left as it is where nothing fits; a few queries have a block each.

// CHECK:      launch.kernel @{{.+}}: memref<1x8x1024xf32>
// CHECK-NOT:    schedule
// CHECK:      launch.kernel @{{.+}}: memref<1x64x128xf32>
// CHECK:        schedule = #launch.queries<tiles, queries 32, keys 32>
// CHECK:      launch.kernel @{{.+}}: memref<2x40x64xf32>
// CHECK:        schedule = #launch.queries<tiles, queries 64, keys 32>
// CHECK:      launch.kernel @{{.+}}: memref<2x3x64xf32>
// CHECK:        schedule = #launch.queries<rows, queries 1, keys 4>
job.job @net placement <cuda, [0:0]> {
  %q = job.input "q" : tensor<2x40x64xf32>
  %k = job.input "k" : tensor<2x50x64xf32>
  %a = op.attention %q, %k, %k : tensor<2x40x64xf32>, tensor<2x50x64xf32>, tensor<2x50x64xf32> -> tensor<2x40x64xf32>
  %w = job.input "w" : tensor<1x64x128xf32>
  %b = op.attention %w, %w, %w : tensor<1x64x128xf32>, tensor<1x64x128xf32>, tensor<1x64x128xf32> -> tensor<1x64x128xf32>
  %r = job.input "r" : tensor<2x3x64xf32>
  %c = op.attention %r, %k, %k : tensor<2x3x64xf32>, tensor<2x50x64xf32>, tensor<2x50x64xf32> -> tensor<2x3x64xf32>
  %l = job.input "l" : tensor<1x8x1024xf32>
  %d = op.attention %l, %l, %l : tensor<1x8x1024xf32>, tensor<1x8x1024xf32>, tensor<1x8x1024xf32> -> tensor<1x8x1024xf32>
  job.output "a", %a : tensor<2x40x64xf32>
  job.output "b", %b : tensor<1x64x128xf32>
  job.output "c", %c : tensor<2x3x64xf32>
  job.output "d", %d : tensor<1x8x1024xf32>
}

// Gradients of attention are two grids, of blocks of queries and of blocks of keys.
// CHECK-LABEL: launch.program @gradients
// CHECK:         kernel.attention_gradient {{.*}}schedule = #launch.gradient_tiles<queries 32, keys 32>
job.job @gradients placement <cuda, [0:0]> {
  %q = job.input "q2" : tensor<12x128x64xf32>
  %g = job.input "g" : tensor<12x128x64xf32>
  %l = job.input "l2" : tensor<12x128xf32>
  %x, %y, %z = op.attention_gradient %q, %q, %q, %g, %l, %l : tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128xf32>, tensor<12x128xf32> -> tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>
  job.output "x2", %x : tensor<12x128x64xf32>
  job.output "y", %y : tensor<12x128x64xf32>
  job.output "z", %z : tensor<12x128x64xf32>
}
