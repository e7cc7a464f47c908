// RUN: penstock-opt %s -p op-split-taps --split-input-file | filecheck %s
// RUN: penstock-opt %s -p op-split-taps,op-split-taps --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'op-split-taps{least-share=70}' --split-input-file | filecheck %s --check-prefix=FEWER
// RUN: penstock-opt %s -p 'op-split-taps{device=cuda}' --split-input-file | filecheck %s --check-prefix=CUDA

// A bias is added last. With strides a tap hits every second pixel. Here 10 of 18 taps are in the
// padding, and 70 percent would be more.

// CHECK-LABEL: job.job @strides
// CHECK:       op.slice %x from [0, 0, 0, 0] to [1, 32, 1, 11] by [1, 1, 1, 2]
// CHECK:       %[[BIAS:.+]] = op.reshape %b to [32, 1, 1]
// CHECK-NEXT:  %y = op.add %{{.+}}, %[[BIAS]]
// FEWER-NOT:   part
// CUDA-NOT:    part
job.job @strides placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x32x1x11xf32>
  %w = job.variable "w" init <ones> : tensor<32x32x1x3xf32>
  %b = job.variable "b" init <ones> : tensor<32xf32>
  %y = op.conv2d %x, %w, %b strides [1, 2] pads [0, 9, 0, 9] dilations [1, 9]
    : tensor<1x32x1x11xf32>, tensor<32x32x1x3xf32>, tensor<32xf32> -> tensor<1x32x1x6xf32>
  job.output "y", %y : tensor<1x32x1x6xf32>
}

// -----

// Few taps in the padding are no reason, nor are few channels.

// CHECK-LABEL: job.job @near
// CHECK-NOT:   part
job.job @near placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x32x28x28xf32>
  %few = job.input "few" : tensor<1x31x8x8xf32>
  %w = job.variable "w" init <ones> : tensor<32x32x3x3xf32>
  %v = job.variable "v" init <ones> : tensor<32x31x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] : tensor<1x32x28x28xf32>, tensor<32x32x3x3xf32> -> tensor<1x32x28x28xf32>
  %z = op.conv2d %few, %v pads [6, 6, 6, 6] dilations [6, 6] : tensor<1x31x8x8xf32>, tensor<32x31x3x3xf32> -> tensor<1x32x8x8xf32>
  job.output "y", %y : tensor<1x32x28x28xf32>
  job.output "z", %z : tensor<1x32x8x8xf32>
}

// -----

// Weights that something else reads stay whole, and so do those that are no variable, of half
// precision, or in groups.

// CHECK-LABEL: job.job @weights
// CHECK-NOT:   part
job.job @weights placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x32x8x8xf32>
  %h = job.input "h" : tensor<1x32x8x8xf16>
  %w = job.variable "w" init <ones> : tensor<32x32x3x3xf32>
  %s = job.variable "s" init <ones> : tensor<32x32x3x3xf16>
  %g = job.variable "g" init <ones> : tensor<64x32x3x3xf32>
  %v = job.input "v" : tensor<32x32x3x3xf32>
  %two = job.input "two" : tensor<1x64x8x8xf32>
  %y = op.conv2d %x, %w pads [6, 6, 6, 6] dilations [6, 6] : tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32> -> tensor<1x32x8x8xf32>
  %z = op.conv2d %x, %v pads [6, 6, 6, 6] dilations [6, 6] : tensor<1x32x8x8xf32>, tensor<32x32x3x3xf32> -> tensor<1x32x8x8xf32>
  %a = op.conv2d %h, %s pads [6, 6, 6, 6] dilations [6, 6] : tensor<1x32x8x8xf16>, tensor<32x32x3x3xf16> -> tensor<1x32x8x8xf16>
  %c = op.conv2d %two, %g pads [6, 6, 6, 6] dilations [6, 6] groups 2 : tensor<1x64x8x8xf32>, tensor<64x32x3x3xf32> -> tensor<1x64x8x8xf32>
  job.output "w", %w : tensor<32x32x3x3xf32>
  job.output "y", %y : tensor<1x32x8x8xf32>
  job.output "z", %z : tensor<1x32x8x8xf32>
  job.output "a", %a : tensor<1x32x8x8xf16>
  job.output "c", %c : tensor<1x64x8x8xf32>
}
