// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Floats whose text xDSL would not read back are printed as bytes, the same elements once.

// CHECK-LABEL: @bits
func.func @bits() {
  // CHECK-NEXT: %infinite = op.constant dense<"0x000080FF"> : tensor<2x3xf32>
  %infinite = op.constant dense<"0x000080FF"> : tensor<2x3xf32>
  // CHECK-NEXT: %nan_and_one = op.constant dense<"0x0000C07F0000803F"> : tensor<2xf32>
  %nan_and_one = op.constant dense<"0x0000C07F0000803F"> : tensor<2xf32>
  // CHECK-NEXT: %nans = op.constant dense<"0x0000C07F"> : tensor<2xf32>
  %nans = op.constant dense<"0x0000C07F0000C07F"> : tensor<2xf32>
  // CHECK-NEXT: %signed_zeros = op.constant dense<"0x0000000000000080"> : tensor<2xf32>
  %signed_zeros = op.constant dense<[0.0, -0.0]> : tensor<2xf32>
  // CHECK-NEXT: %large = op.constant dense<"0x0000804B"> : tensor<2xf32>
  %large = op.constant dense<16777216.0> : tensor<2xf32>
  // CHECK-NEXT: %half = op.constant dense<"0x007C"> : tensor<f16>
  %half = op.constant dense<"0x007C"> : tensor<f16>
  func.return
}
