// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Normalisation prints as it was written, without properties that are the default.

// CHECK-LABEL: func.func @batch_norm
func.func @batch_norm(%x: tensor<2x4x3x3xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x3x3xf32>
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<2x4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4x3x3xf32>
  return
}

// CHECK-LABEL: func.func @batch_norm_with_epsilon
func.func @batch_norm_with_epsilon(%x: tensor<2x4xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.batch_norm %x, %s, %b, %m, %v epsilon 1.000000e-03 : tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  %r = op.batch_norm %x, %s, %b, %m, %v epsilon 1.000000e-03 : tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @batch_norm_of_unknown_extents
func.func @batch_norm_of_unknown_extents(%x: tensor<?x?x3xf32>, %s: tensor<?xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.batch_norm %x, %s, %b, %m, %v : tensor<?x?x3xf32>, tensor<?xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<?x?x3xf32>
  %r = op.batch_norm %x, %s, %b, %m, %v : tensor<?x?x3xf32>, tensor<?xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32> -> tensor<?x?x3xf32>
  return
}

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: tensor<2x3x4xf32>, %s: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.layer_norm %x, %s : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  %r = op.layer_norm %x, %s : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  return
}

// CHECK-LABEL: func.func @layer_norm_with_all
func.func @layer_norm_with_all(%x: tensor<2x3x4xf64>, %s: tensor<3x4xf64>, %b: tensor<3x4xf64>) {
  // CHECK-NEXT: %r = op.layer_norm %x, %s, %b axis 1 epsilon 1.000000e-03 : tensor<2x3x4xf64>, tensor<3x4xf64>, tensor<3x4xf64> -> tensor<2x3x4xf64>
  %r = op.layer_norm %x, %s, %b axis 1 epsilon 1.000000e-03 : tensor<2x3x4xf64>, tensor<3x4xf64>, tensor<3x4xf64> -> tensor<2x3x4xf64>
  return
}

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: %r = op.softmax %x : tensor<2x3xf32> -> tensor<2x3xf32>
  %r = op.softmax %x : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @softmax_along_axis
func.func @softmax_along_axis(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: %r = op.softmax %x axis 0 : tensor<2x3xf32> -> tensor<2x3xf32>
  %r = op.softmax %x axis 0 : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @log_softmax
func.func @log_softmax(%x: tensor<?x3xf64>) {
  // CHECK-NEXT: %r = op.log_softmax %x : tensor<?x3xf64> -> tensor<?x3xf64>
  %r = op.log_softmax %x : tensor<?x3xf64> -> tensor<?x3xf64>
  return
}

// CHECK-LABEL: func.func @log_softmax_along_axis
func.func @log_softmax_along_axis(%x: tensor<2x3xf32>) {
  // CHECK-NEXT: %r = op.log_softmax %x axis -2 : tensor<2x3xf32> -> tensor<2x3xf32>
  %r = op.log_softmax %x axis -2 : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// CHECK-LABEL: func.func @local_response_norm
func.func @local_response_norm(%x: tensor<1x4x3x3xf32>) {
  // CHECK-NEXT: %r = op.local_response_norm %x size 5 : tensor<1x4x3x3xf32> -> tensor<1x4x3x3xf32>
  %r = op.local_response_norm %x size 5 alpha 1.000000e-04 beta 7.500000e-01 bias 1.000000e+00 : tensor<1x4x3x3xf32> -> tensor<1x4x3x3xf32>
  return
}

// CHECK-LABEL: func.func @local_response_norm_with_all
func.func @local_response_norm_with_all(%x: tensor<?x4xf64>) {
  // CHECK-NEXT: %r = op.local_response_norm %x size 2 alpha 5.000000e-01 beta 2.500000e-01 bias 2.000000e+00 : tensor<?x4xf64> -> tensor<?x4xf64>
  %r = op.local_response_norm %x size 2 alpha 5.000000e-01 beta 2.500000e-01 bias 2.000000e+00 : tensor<?x4xf64> -> tensor<?x4xf64>
  return
}

// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: tensor<2x3x4xf32>, %s: tensor<3x4xf32>, %t: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.rms_norm %x, %t : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  %r = op.rms_norm %x, %t : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  // CHECK-NEXT: %q = op.rms_norm %x, %s axis 1 epsilon 1.000000e-03 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xf32>
  %q = op.rms_norm %x, %s axis 1 epsilon 1.000000e-03 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xf32>
  return
}
