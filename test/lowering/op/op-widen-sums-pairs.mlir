// RUN: penstock-opt %s -p 'op-widen-sums{pairs=true}' | filecheck %s
// RUN: penstock-opt %s -p 'op-widen-sums{pairs=true device=cuda}' | filecheck %s --check-prefix CUDA

// CPUs that multiply pairs of bf16 take factors as they are, and wide sums are cast.

// CUDA-LABEL:  job.job @products
// CUDA:          op.matmul %a, %b : tensor<4x5xbf16>
// CUDA-NEXT:     op.gemm %a, %b, %c beta 2.000000e+00 : tensor<4x5xbf16>
// CHECK-LABEL: job.job @products
job.job @products placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x5xbf16>
  %b = job.input "b" : tensor<5x3xbf16>
  %c = job.input "c" : tensor<3xbf16>
  // CHECK:      %y_wide = op.matmul %a, %b wide : tensor<4x5xbf16>, tensor<5x3xbf16> -> tensor<4x3xf32>
  // CHECK-NEXT: %y = op.cast %y_wide to bf16
  %y = op.matmul %a, %b : tensor<4x5xbf16>, tensor<5x3xbf16> -> tensor<4x3xbf16>
  // CHECK-NEXT: %c_wide = op.cast %c to f32
  // CHECK-NEXT: %z_wide = op.gemm %a, %b, %c_wide beta 2.000000e+00 wide : tensor<4x5xbf16>, tensor<5x3xbf16>, tensor<3xf32> -> tensor<4x3xf32>
  %z = op.gemm %a, %b, %c beta 2.0 : tensor<4x5xbf16>, tensor<5x3xbf16>, tensor<3xbf16> -> tensor<4x3xbf16>
  job.output "y", %y : tensor<4x3xbf16>
  job.output "z", %z : tensor<4x3xbf16>
}

// So do convolutions of single pixels. Windows of others take a panel's place more than
// once, and pads would have to be packed.

// CHECK-LABEL: job.job @convolutions
job.job @convolutions placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x4x6x6xbf16>
  %v = job.input "v" : tensor<8x4x1x1xbf16>
  %w = job.input "w" : tensor<8x4x3x3xbf16>
  %d = job.input "d" : tensor<4x1x1x1xbf16>
  // CHECK: op.conv2d %x, %v strides [2, 2] wide : tensor<1x4x6x6xbf16>
  %0 = op.conv2d %x, %v strides [2, 2] : tensor<1x4x6x6xbf16>, tensor<8x4x1x1xbf16> -> tensor<1x8x3x3xbf16>
  // CHECK: op.conv2d %{{.+}}, %{{.+}} pads [1, 1, 1, 1] : tensor<1x4x6x6xf32>
  %1 = op.conv2d %x, %v pads [1, 1, 1, 1] : tensor<1x4x6x6xbf16>, tensor<8x4x1x1xbf16> -> tensor<1x8x8x8xbf16>
  // CHECK: op.conv2d %{{.+}}, %{{.+}} : tensor<1x4x6x6xf32>
  %2 = op.conv2d %x, %w : tensor<1x4x6x6xbf16>, tensor<8x4x3x3xbf16> -> tensor<1x8x4x4xbf16>
  // CHECK: op.conv2d %{{.+}}, %{{.+}} groups 4 : tensor<1x4x6x6xf32>
  %3 = op.conv2d %x, %d groups 4 : tensor<1x4x6x6xbf16>, tensor<4x1x1x1xbf16> -> tensor<1x4x6x6xbf16>
  job.output "0", %0 : tensor<1x8x3x3xbf16>
  job.output "1", %1 : tensor<1x8x8x8xbf16>
  job.output "2", %2 : tensor<1x8x4x4xbf16>
  job.output "3", %3 : tensor<1x4x6x6xbf16>
}

// There are no pairs of f16, and other sums are not of products.

// CHECK-LABEL: job.job @others
// CHECK-NOT:   {{ wide :}}
job.job @others placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x4xf16>
  %b = job.input "b" : tensor<4x4xbf16>
  %y = op.matmul %a, %a : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf16>
  %z = op.reduce_sum %b axes [0] : tensor<4x4xbf16> -> tensor<4xbf16>
  job.output "y", %y : tensor<4x4xf16>
  job.output "z", %z : tensor<4xbf16>
}
