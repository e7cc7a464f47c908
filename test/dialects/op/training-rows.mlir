// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Losses and gradients of rows print as they were written, without properties that are
// the default.

!x = tensor<4x10xf32>

// CHECK-LABEL: func.func @losses
func.func @losses(%x: !x, %t: tensor<4xi64>, %g: tensor<4xf32>) {
  // CHECK-NEXT: %l = op.softmax_cross_entropy %x[%t] : tensor<4x10xf32>, tensor<4xi64> -> tensor<4xf32>
  %l = op.softmax_cross_entropy %x[%t] : !x, tensor<4xi64> -> tensor<4xf32>
  // CHECK-NEXT: %r = op.softmax_cross_entropy_gradient %x[%t], %g : tensor<4x10xf32>, tensor<4xi64>, tensor<4xf32> -> tensor<4x10xf32>
  %r = op.softmax_cross_entropy_gradient %x[%t], %g : !x, tensor<4xi64>, tensor<4xf32> -> !x
  return
}

// CHECK-LABEL: func.func @losses_with_all
func.func @losses_with_all(%x: tensor<4x10x?xf16>, %t: tensor<4x?xi32>, %g: tensor<4x3xf16>) {
  // CHECK-NEXT: %l = op.softmax_cross_entropy %x[%t] axis 1 ignore_index -100 smoothing 1.000000e-01 : tensor<4x10x?xf16>, tensor<4x?xi32> -> tensor<4x?xf16>
  %l = op.softmax_cross_entropy %x[%t] axis 1 ignore_index -100 smoothing 1.000000e-01 : tensor<4x10x?xf16>, tensor<4x?xi32> -> tensor<4x?xf16>
  // CHECK-NEXT: %r = op.softmax_cross_entropy_gradient %x[%t], %g axis 1 ignore_index 0 smoothing 1.000000e+00 : tensor<4x10x?xf16>, tensor<4x?xi32>, tensor<4x3xf16> -> tensor<4x10x?xf16>
  %r = op.softmax_cross_entropy_gradient %x[%t], %g axis 1 ignore_index 0 smoothing 1.000000e+00 : tensor<4x10x?xf16>, tensor<4x?xi32>, tensor<4x3xf16> -> tensor<4x10x?xf16>
  return
}

// CHECK-LABEL: func.func @softmaxes
func.func @softmaxes(%y: !x, %g: !x) {
  // CHECK-NEXT: %a = op.softmax_gradient %y, %g : tensor<4x10xf32>, tensor<4x10xf32> -> tensor<4x10xf32>
  %a = op.softmax_gradient %y, %g : !x, !x -> !x
  // CHECK-NEXT: %b = op.log_softmax_gradient %y, %g axis 0 : tensor<4x10xf32>, tensor<4x10xf32> -> tensor<4x10xf32>
  %b = op.log_softmax_gradient %y, %g axis 0 : !x, !x -> !x
  return
}

// CHECK-LABEL: func.func @norms
func.func @norms(%x: !x, %g: !x, %s: tensor<10xf32>, %t: !x) {
  // CHECK-NEXT: %a = op.layer_norm_gradient %x, %g, %s : tensor<4x10xf32>, tensor<4x10xf32>, tensor<10xf32> -> tensor<4x10xf32>
  %a = op.layer_norm_gradient %x, %g, %s : !x, !x, tensor<10xf32> -> !x
  // CHECK-NEXT: %b = op.rms_norm_gradient %x, %g, %t axis 0 epsilon 1.000000e-06 : tensor<4x10xf32>, tensor<4x10xf32>, tensor<4x10xf32> -> tensor<4x10xf32>
  %b = op.rms_norm_gradient %x, %g, %t axis 0 epsilon 1.000000e-06 : !x, !x, !x -> !x
  return
}

// CHECK-LABEL: func.func @embedding
func.func @embedding(%g: tensor<2x3x4xf32>, %i: tensor<2x3xi32>) {
  // CHECK-NEXT: %r = op.embedding_gradient %g[%i] rows 9 : tensor<2x3x4xf32>, tensor<2x3xi32> -> tensor<9x4xf32>
  %r = op.embedding_gradient %g[%i] rows 9 : tensor<2x3x4xf32>, tensor<2x3xi32> -> tensor<9x4xf32>
  return
}
