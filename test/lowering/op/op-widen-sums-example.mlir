// RUN: penstock-opt %s -p 'op-widen-sums{pairs=false}' | filecheck %s --match-full-lines

// A bf16 matmul accumulates in f32, and rounds once.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4x5xbf16>
  %b = job.input "b" : tensor<5x3xbf16>
  %y = op.matmul %a, %b : tensor<4x5xbf16>, tensor<5x3xbf16> -> tensor<4x3xbf16>
  job.output "y", %y : tensor<4x3xbf16>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %a = job.input "a" : tensor<4x5xbf16>
// CHECK-NEXT:   %b = job.input "b" : tensor<5x3xbf16>
// CHECK-NEXT:   %a_wide = op.cast %a to f32 : tensor<4x5xbf16> -> tensor<4x5xf32>
// CHECK-NEXT:   %b_wide = op.cast %b to f32 : tensor<5x3xbf16> -> tensor<5x3xf32>
// CHECK-NEXT:   %y_wide = op.matmul %a_wide, %b_wide : tensor<4x5xf32>, tensor<5x3xf32> -> tensor<4x3xf32>
// CHECK-NEXT:   %y = op.cast %y_wide to bf16 : tensor<4x3xf32> -> tensor<4x3xbf16>
// CHECK-NEXT:   job.output "y", %y : tensor<4x3xbf16>
// CHECK-NEXT: }
// EXAMPLE-END
