// RUN: penstock-opt %s -p 'op-widen-sums{device=cuda pairs=false}' | filecheck %s
// RUN: penstock-opt %s -p 'op-widen-sums{pairs=false}' | filecheck %s --check-prefix STAY

// Devices add products of floats of 16 bits in 32 as they are; other sums are made f32.
// An op that has a placement keeps to that.

// CHECK-LABEL: job.job @products
// CHECK:         op.matmul %a, %b : tensor<4x5xbf16>
// CHECK:         op.gemm %a, %b : tensor<4x5xbf16>
// CHECK:         op.reduce_sum %{{.+}} axes [0] : tensor<4x3xf32>
// CHECK:         op.matmul %{{.+}}, %{{.+}} {placement = #job.placement<cpu, [0:0]>} : tensor<4x5xf32>
// STAY-LABEL:  job.job @products
// STAY-NOT:      op.matmul %a, %b : tensor<4x5xbf16>
// STAY:          op.reduce_sum
job.job @products placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x5xbf16>
  %b = job.input "b" : tensor<5x3xbf16>
  %y = op.matmul %a, %b : tensor<4x5xbf16>, tensor<5x3xbf16> -> tensor<4x3xbf16>
  %g = op.gemm %a, %b : tensor<4x5xbf16>, tensor<5x3xbf16> -> tensor<4x3xbf16>
  %s = op.reduce_sum %y axes [0] : tensor<4x3xbf16> -> tensor<3xbf16>
  %z = op.matmul %a, %b {placement = #job.placement<cpu, [0:0]>} : tensor<4x5xbf16>, tensor<5x3xbf16> -> tensor<4x3xbf16>
  job.output "g", %g : tensor<4x3xbf16>
  job.output "s", %s : tensor<3xbf16>
  job.output "z", %z : tensor<4x3xbf16>
}

// Convolutions with one channel a group are not multiplied by tensor cores.

// CHECK-LABEL: job.job @convolutions
// CHECK:         op.conv2d %x, %w : tensor<1x4x6x6xf16>
// CHECK:         op.conv2d %{{.+}}, %{{.+}} groups 4 : tensor<1x4x6x6xf32>
job.job @convolutions placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<1x4x6x6xf16>
  %w = job.input "w" : tensor<4x4x3x3xf16>
  %d = job.input "d" : tensor<4x1x3x3xf16>
  %y = op.conv2d %x, %w : tensor<1x4x6x6xf16>, tensor<4x4x3x3xf16> -> tensor<1x4x4x4xf16>
  %z = op.conv2d %x, %d groups 4 : tensor<1x4x6x6xf16>, tensor<4x1x3x3xf16> -> tensor<1x4x4x4xf16>
  job.output "y", %y : tensor<1x4x4x4xf16>
  job.output "z", %z : tensor<1x4x4x4xf16>
}
