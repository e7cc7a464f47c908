// RUN: penstock-opt %s -p op-assign-layouts | filecheck %s --match-full-lines

// Between two convolutions the 256 channels of an image come last: the result of the
// first is stored that way, and the second one reads it so.

!narrow = tensor<1x64x56x56xf32>
!wide = tensor<1x256x56x56xf32>

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : !narrow
  %w = job.variable "w" init <ones> : tensor<256x64x1x1xf32>
  %v = job.variable "v" init <ones> : tensor<64x256x1x1xf32>
  %h = op.conv2d %x, %w : !narrow, tensor<256x64x1x1xf32> -> !wide
  %r = op.relu %h : !wide -> !wide
  %y = op.conv2d %r, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  job.output "y", %y : !narrow
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK:        %h = op.conv2d %x, %w result_last {{.*}} -> tensor<1x56x56x256xf32>
// CHECK-NEXT:   %r = op.relu %h : tensor<1x56x56x256xf32> -> tensor<1x56x56x256xf32>
// CHECK-NEXT:   %y = op.conv2d %r, %v input_last {{.*}} -> tensor<1x64x56x56xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<1x64x56x56xf32>
// CHECK-NEXT: }
// EXAMPLE-END
