// RUN: penstock-opt %s -p 'job-cast-amp{type=bf16}' | filecheck %s --match-full-lines

// Two products and what lies between them are computed in 16 bits; the weights and the loss are not.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x4xf32>
  %w = job.variable "w" init <ones> : tensor<4x2xf32>
  %v = job.variable "v" init <ones> : tensor<2x2xf32>
  %h = op.matmul %x, %w : tensor<8x4xf32>, tensor<4x2xf32> -> tensor<8x2xf32>
  %r = op.relu %h : tensor<8x2xf32> -> tensor<8x2xf32>
  %y = op.matmul %r, %v : tensor<8x2xf32>, tensor<2x2xf32> -> tensor<8x2xf32>
  %loss = op.reduce_sum %y axes [0, 1] : tensor<8x2xf32> -> tensor<f32>
  job.output "loss", %loss : tensor<f32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<8x4xf32>
// CHECK-NEXT:   %w = job.variable "w" init <ones> : tensor<4x2xf32>
// CHECK-NEXT:   %v = job.variable "v" init <ones> : tensor<2x2xf32>
// CHECK-NEXT:   %x_bf16 = op.cast %x to bf16 : tensor<8x4xf32> -> tensor<8x4xbf16>
// CHECK-NEXT:   %w_bf16 = op.cast %w to bf16 : tensor<4x2xf32> -> tensor<4x2xbf16>
// CHECK-NEXT:   %h_bf16 = op.matmul %x_bf16, %w_bf16 : tensor<8x4xbf16>, tensor<4x2xbf16> -> tensor<8x2xbf16>
// CHECK-NEXT:   %r_bf16 = op.relu %h_bf16 : tensor<8x2xbf16> -> tensor<8x2xbf16>
// CHECK-NEXT:   %v_bf16 = op.cast %v to bf16 : tensor<2x2xf32> -> tensor<2x2xbf16>
// CHECK-NEXT:   %y_bf16 = op.matmul %r_bf16, %v_bf16 : tensor<8x2xbf16>, tensor<2x2xbf16> -> tensor<8x2xbf16>
// CHECK-NEXT:   %y = op.cast %y_bf16 to f32 : tensor<8x2xbf16> -> tensor<8x2xf32>
// CHECK-NEXT:   %loss = op.reduce_sum %y axes [0, 1] : tensor<8x2xf32> -> tensor<f32>
// CHECK-NEXT:   job.output "loss", %loss : tensor<f32>
// CHECK-NEXT: }
// EXAMPLE-END
