// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Convolutions print as they were written, without properties that are the default.

// CHECK-LABEL: func.func @conv2d
func.func @conv2d(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK-NEXT: %r = op.conv2d %x, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  %r = op.conv2d %x, %w : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<1x6x6x6xf32>
  return
}

// CHECK-LABEL: func.func @conv2d_with_bias
func.func @conv2d_with_bias(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<6xf32>) {
  // CHECK-NEXT: %r = op.conv2d %x, %w, %b : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32> -> tensor<1x6x6x6xf32>
  %r = op.conv2d %x, %w, %b : tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32> -> tensor<1x6x6x6xf32>
  return
}

// CHECK-LABEL: func.func @conv2d_with_all
func.func @conv2d_with_all(%x: tensor<1x4x8x8xf32>, %w: tensor<6x2x3x2xf32>, %b: tensor<6xf32>) {
  // CHECK-NEXT: %r = op.conv2d %x, %w, %b strides [2, 1] pads [1, 2, 3, 4] dilations [2, 3] groups 2 : tensor<1x4x8x8xf32>, tensor<6x2x3x2xf32>, tensor<6xf32> -> tensor<1x6x4x11xf32>
  %r = op.conv2d %x, %w, %b strides [2, 1] pads [1, 2, 3, 4] dilations [2, 3] groups 2 : tensor<1x4x8x8xf32>, tensor<6x2x3x2xf32>, tensor<6xf32> -> tensor<1x6x4x11xf32>
  return
}

// Channels are the last dimension of the images, of the result, or of both.

// CHECK-LABEL: func.func @conv2d_with_channels_last
func.func @conv2d_with_channels_last(%x: tensor<1x8x9x4xf32>, %y: tensor<1x4x8x9xf32>, %w: tensor<6x2x3x2xf32>) {
  // CHECK-NEXT: %p = op.conv2d %x, %w strides [2, 1] groups 2 input_last : tensor<1x8x9x4xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x3x8xf32>
  %p = op.conv2d %x, %w strides [2, 1] groups 2 input_last : tensor<1x8x9x4xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x3x8xf32>
  // CHECK-NEXT: %q = op.conv2d %y, %w groups 2 result_last : tensor<1x4x8x9xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x8x6xf32>
  %q = op.conv2d %y, %w groups 2 result_last : tensor<1x4x8x9xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x8x6xf32>
  // CHECK-NEXT: %r = op.conv2d %x, %w groups 2 input_last result_last : tensor<1x8x9x4xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x8x6xf32>
  %r = op.conv2d %x, %w groups 2 input_last result_last : tensor<1x8x9x4xf32>, tensor<6x2x3x2xf32> -> tensor<1x6x8x6xf32>
  return
}

// Bytes of any sign make sums of 32 bits, as the bias is.

// CHECK-LABEL: func.func @conv2d_of_bytes
func.func @conv2d_of_bytes(%x: tensor<1x4x8x8xui8>, %w: tensor<6x4x3x3xi8>, %b: tensor<6xi32>) {
  // CHECK-NEXT: %r = op.conv2d %x, %w, %b wide : tensor<1x4x8x8xui8>, tensor<6x4x3x3xi8>, tensor<6xi32> -> tensor<1x6x6x6xi32>
  %r = op.conv2d %x, %w, %b wide : tensor<1x4x8x8xui8>, tensor<6x4x3x3xi8>, tensor<6xi32> -> tensor<1x6x6x6xi32>
  return
}

// CHECK-LABEL: func.func @conv2d_of_integers
func.func @conv2d_of_integers(%x: tensor<1x1x3x3xi8>, %w: tensor<1x1x3x3xi8>) {
  // CHECK-NEXT: %r = op.conv2d %x, %w : tensor<1x1x3x3xi8>, tensor<1x1x3x3xi8> -> tensor<1x1x1x1xi8>
  %r = op.conv2d %x, %w : tensor<1x1x3x3xi8>, tensor<1x1x3x3xi8> -> tensor<1x1x1x1xi8>
  return
}

// Extents that are not known are not known in the result.

// CHECK-LABEL: func.func @conv2d_of_unknown_extents
func.func @conv2d_of_unknown_extents(%x: tensor<?x?x?x8xf32>, %w: tensor<6x4x3x?xf32>) {
  // CHECK-NEXT: %r = op.conv2d %x, %w : tensor<?x?x?x8xf32>, tensor<6x4x3x?xf32> -> tensor<?x6x?x?xf32>
  %r = op.conv2d %x, %w : tensor<?x?x?x8xf32>, tensor<6x4x3x?xf32> -> tensor<?x6x?x?xf32>
  return
}
