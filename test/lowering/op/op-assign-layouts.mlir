// RUN: penstock-opt %s -p op-assign-layouts --split-input-file | filecheck %s
// RUN: penstock-opt %s -p op-assign-layouts,op-assign-layouts --split-input-file | filecheck %s

// Both runs give the same: what has channels last is left alone.

// 256 channels of 56 x 56 pixels have 3 MiB: with channels last, what makes and reads them
// takes less. Sums, the bias and a residual are elements of the same layout.

// CHECK-LABEL: job.job @wide
// CHECK:       %[[A:.+]] = op.conv2d %x, %w, %b result_last {layouts = {input = "first: {{[0-9]+}} products, last: {{[0-9]+}} products", result = "last: [[KEPT:[0-9]+]] products, first: [[LEFT:[0-9]+]] products"}} : tensor<1x64x56x56xf32>, tensor<256x64x1x1xf32>, tensor<256xf32> -> tensor<1x56x56x256xf32>
// CHECK-NEXT:  %[[B:.+]] = op.conv2d %x, %w, %b result_last
// CHECK-NEXT:  %[[SUM:.+]] = op.add %[[A]], %[[B]] : tensor<1x56x56x256xf32>, tensor<1x56x56x256xf32> -> tensor<1x56x56x256xf32>
// CHECK-NEXT:  %[[CUT:.+]] = op.maximum %[[SUM]], %zero : tensor<1x56x56x256xf32>, tensor<f32>
// CHECK-NEXT:  %y = op.conv2d %[[CUT]], %v input_last {layouts = {input = "last: [[KEPT]] products, first: [[LEFT]] products", result = "first: {{[0-9]+}} products, last: {{[0-9]+}} products"}} : tensor<1x56x56x256xf32>, tensor<64x256x1x1xf32> -> tensor<1x64x56x56xf32>
// CHECK-NEXT:  job.output "y", %y
job.job @wide placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x64x56x56xf32>
  %w = job.variable "w" init <ones> : tensor<256x64x1x1xf32>
  %b = job.variable "b" init <ones> : tensor<256xf32>
  %v = job.variable "v" init <ones> : tensor<64x256x1x1xf32>
  %zero = op.constant dense<0.0> : tensor<f32>
  %a = op.conv2d %x, %w, %b
    : tensor<1x64x56x56xf32>, tensor<256x64x1x1xf32>, tensor<256xf32> -> tensor<1x256x56x56xf32>
  %c = op.conv2d %x, %w, %b
    : tensor<1x64x56x56xf32>, tensor<256x64x1x1xf32>, tensor<256xf32> -> tensor<1x256x56x56xf32>
  %s = op.add %a, %c : tensor<1x256x56x56xf32>, tensor<1x256x56x56xf32> -> tensor<1x256x56x56xf32>
  %r = op.maximum %s, %zero : tensor<1x256x56x56xf32>, tensor<f32> -> tensor<1x256x56x56xf32>
  %y = op.conv2d %r, %v
    : tensor<1x256x56x56xf32>, tensor<64x256x1x1xf32> -> tensor<1x64x56x56xf32>
  job.output "y", %y : tensor<1x64x56x56xf32>
}

// -----

// What others read with channels first is converted back, once, if all that still pays: nine
// convolutions gain by it here.

// CHECK-LABEL: job.job @read_by_others
// CHECK:       %[[SUM:.+]] = op.add {{.*}} -> tensor<1x56x56x256xf32>
// CHECK-NEXT:  %s = op.transpose %[[SUM]] by [0, 3, 1, 2] : tensor<1x56x56x256xf32> -> tensor<1x256x56x56xf32>
// CHECK-NEXT:  op.max_pool2d %s
// CHECK-NEXT:  op.conv2d %[[SUM]], %v input_last
// CHECK:       job.output "s", %s
// CHECK-NOT:   op.transpose
!narrow = tensor<1x64x56x56xf32>
!wide = tensor<1x256x56x56xf32>
!weights = tensor<256x64x1x1xf32>
job.job @read_by_others placement <cpu, [0:0]> {
  %x = job.input "x" : !narrow
  %w = job.variable "w" init <ones> : !weights
  %v = job.variable "v" init <ones> : tensor<64x256x1x1xf32>
  %a = op.conv2d %x, %w : !narrow, !weights -> !wide
  %c = op.conv2d %x, %w : !narrow, !weights -> !wide
  %s = op.add %a, %c : !wide, !wide -> !wide
  %p = op.max_pool2d %s kernel [56, 56] : !wide -> tensor<1x256x1x1xf32>
  %y = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %z0 = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %z1 = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %z2 = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %z3 = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %z4 = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %z5 = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  job.output "s", %s : !wide
  job.output "p", %p : tensor<1x256x1x1xf32>
  job.output "y", %y : !narrow
  job.output "z0", %z0 : !narrow
  job.output "z1", %z1 : !narrow
  job.output "z2", %z2 : !narrow
  job.output "z3", %z3 : !narrow
  job.output "z4", %z4 : !narrow
  job.output "z5", %z5 : !narrow
}

// -----

// So is what others make.

// CHECK-LABEL: job.job @made_by_others
// CHECK:       %e = job.input "e"
// CHECK-NEXT:  %[[LAST:.+]] = op.transpose %e by [0, 2, 3, 1] : tensor<1x256x56x56xf32> -> tensor<1x56x56x256xf32>
// CHECK:       op.add %[[LAST]], {{.*}} -> tensor<1x56x56x256xf32>
// CHECK-COUNT-4: input_last
// CHECK-NOT:   op.transpose
!narrow = tensor<1x64x56x56xf32>
!wide = tensor<1x256x56x56xf32>
!weights = tensor<256x64x1x1xf32>
job.job @made_by_others placement <cpu, [0:0]> {
  %e = job.input "e" : !wide
  %x = job.input "x" : !narrow
  %w = job.variable "w" init <ones> : !weights
  %v = job.variable "v" init <ones> : tensor<64x256x1x1xf32>
  %c0 = op.conv2d %x, %w : !narrow, !weights -> !wide
  %s0 = op.add %e, %c0 : !wide, !wide -> !wide
  %y0 = op.conv2d %s0, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %c1 = op.conv2d %y0, %w : !narrow, !weights -> !wide
  %s1 = op.add %s0, %c1 : !wide, !wide -> !wide
  %y1 = op.conv2d %s1, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %c2 = op.conv2d %y1, %w : !narrow, !weights -> !wide
  %s2 = op.add %s1, %c2 : !wide, !wide -> !wide
  %y2 = op.conv2d %s2, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  %c3 = op.conv2d %y2, %w : !narrow, !weights -> !wide
  %s3 = op.add %s2, %c3 : !wide, !wide -> !wide
  %y3 = op.conv2d %s3, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  job.output "y", %y3 : !narrow
}

// -----

// A conversion that takes more than it saves is refused. Back it is 2 * 256 * 3136 products; the
// 49 pieces of 256 channels would be 2 * 64 * 12544, of 5030732 products.

// CHECK-LABEL: job.job @alone
// CHECK:       %y = op.conv2d %x, %w {layouts = {input = "first: 5067776 products, last: 6685952 products", result = "first: 5067776 products, last: 10154619 products"}} : {{.*}} -> tensor<1x256x56x56xf32>
// CHECK-NOT:   op.transpose
!narrow = tensor<1x64x56x56xf32>
!wide = tensor<1x256x56x56xf32>
!weights = tensor<256x64x1x1xf32>
job.job @alone placement <cpu, [0:0]> {
  %x = job.input "x" : !narrow
  %w = job.variable "w" init <ones> : !weights
  %y = op.conv2d %x, %w : !narrow, !weights -> !wide
  job.output "y", %y : !wide
}

// -----

// Windows have channels first, and packing them takes 7 * 288 terms * 4 vectors; results with
// strides have them first, too. No figures are for channels in groups.

// CHECK-LABEL: job.job @windows
// CHECK:       op.conv2d %x, %w {layouts = {windows = "first: of {{[0-9]+}} products, 8064 are to pack windows"}}
// CHECK-NEXT:  op.conv2d %x, %v strides [2, 2] {layouts = {{.*}}result = "first: {{[0-9]+}} products, last: no kernel"}}
// CHECK-NEXT:  op.conv2d %x, %u groups 2 :
job.job @windows placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x32x9x9xf32>
  %w = job.variable "w" init <ones> : tensor<32x32x3x3xf32>
  %v = job.variable "v" init <ones> : tensor<32x32x1x1xf32>
  %u = job.variable "u" init <ones> : tensor<32x16x1x1xf32>
  %a = op.conv2d %x, %w : tensor<1x32x9x9xf32>, tensor<32x32x3x3xf32> -> tensor<1x32x7x7xf32>
  %b = op.conv2d %x, %v strides [2, 2] : tensor<1x32x9x9xf32>, tensor<32x32x1x1xf32> -> tensor<1x32x5x5xf32>
  %c = op.conv2d %x, %u groups 2 : tensor<1x32x9x9xf32>, tensor<32x16x1x1xf32> -> tensor<1x32x9x9xf32>
  job.output "a", %a : tensor<1x32x7x7xf32>
  job.output "b", %b : tensor<1x32x5x5xf32>
  job.output "c", %c : tensor<1x32x9x9xf32>
}

// -----

// What says how it runs stays, and so does what reads an operand of another shape.

// CHECK-LABEL: job.job @asked
// CHECK-NOT:   {{input|result}}_last
!narrow = tensor<1x64x56x56xf32>
!wide = tensor<1x256x56x56xf32>
!weights = tensor<256x64x1x1xf32>
job.job @asked placement <cpu, [0:0]> {
  %x = job.input "x" : !narrow
  %w = job.variable "w" init <ones> : !weights
  %b = job.variable "b" init <ones> : tensor<256x1x1xf32>
  %a = op.conv2d %x, %w {slots = 2 : i64} : !narrow, !weights -> !wide
  %c = op.conv2d %x, %w {slots = 2 : i64} : !narrow, !weights -> !wide
  %s = op.add %a, %c : !wide, !wide -> !wide
  %d = op.conv2d %x, %w : !narrow, !weights -> !wide
  %t = op.add %d, %b : !wide, tensor<256x1x1xf32> -> !wide
  job.output "s", %s : !wide
  job.output "t", %t : !wide
}

// -----

// So does everything on another device than a processor.

// CHECK-LABEL: job.job @cuda
// CHECK-NOT:   layouts
// CHECK-NOT:   result_last
!narrow = tensor<1x64x56x56xf32>
!wide = tensor<1x256x56x56xf32>
!weights = tensor<256x64x1x1xf32>
job.job @cuda placement <cuda, [0:0]> {
  %x = job.input "x" : !narrow
  %w = job.variable "w" init <ones> : !weights
  %a = op.conv2d %x, %w : !narrow, !weights -> !wide
  %c = op.conv2d %x, %w : !narrow, !weights -> !wide
  %s = op.add %a, %c : !wide, !wide -> !wide
  %v = job.variable "v" init <ones> : tensor<64x256x1x1xf32>
  %y = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  job.output "y", %y : !narrow
}

// -----

// And on several devices.

// CHECK-LABEL: job.job @several
// CHECK-NOT:   layouts
// CHECK-NOT:   result_last
!narrow = tensor<1x64x56x56xf32>
!wide = tensor<1x256x56x56xf32>
!weights = tensor<256x64x1x1xf32>
job.job @several placement <cpu, [0:0-1]> {
  %x = job.input "x" : !narrow
  %w = job.variable "w" init <ones> : !weights
  %a = op.conv2d %x, %w : !narrow, !weights -> !wide
  %c = op.conv2d %x, %w : !narrow, !weights -> !wide
  %s = op.add %a, %c : !wide, !wide -> !wide
  %v = job.variable "v" init <ones> : tensor<64x256x1x1xf32>
  %y = op.conv2d %s, %v : !wide, tensor<64x256x1x1xf32> -> !narrow
  job.output "y", %y : !narrow
}
