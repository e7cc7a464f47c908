// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK-LABEL: @constants
func.func @constants() {
  // CHECK-NEXT: %splat = op.constant dense<1.000000e+00> : tensor<4xf32>
  %splat = op.constant dense<1.0> : tensor<4xf32>
  // CHECK-NEXT: %equal = op.constant dense<2> : tensor<2xi64>
  %equal = op.constant dense<[2, 2]> : tensor<2xi64>
  // CHECK-NEXT: %different = op.constant dense<[1, -128]> : tensor<2xi8>
  %different = op.constant dense<[1, -128]> : tensor<2xi8>
  // CHECK-NEXT: %matrix = op.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi32>
  %matrix = op.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  // CHECK-NEXT: %scalar = op.constant dense<5.000000e-01> : tensor<f64>
  %scalar = op.constant dense<5.000000e-01> : tensor<f64>
  // CHECK-NEXT: %booleans = op.constant dense<[true, false]> : tensor<2xi1>
  %booleans = op.constant dense<[true, false]> : tensor<2xi1>
  // CHECK-NEXT: %truths = op.constant dense<true> : tensor<3xi1>
  %truths = op.constant dense<true> : tensor<3xi1>
  // CHECK-NEXT: %empty = op.constant dense<> : tensor<2x0xf32>
  %empty = op.constant dense<> : tensor<2x0xf32>
  // CHECK-NEXT: %wide = op.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  %wide = op.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  // CHECK-NEXT: %marked = op.constant {acme.layer = 1 : i64} dense<0> : tensor<2xi16>
  %marked = op.constant {acme.layer = 1 : i64} dense<0> : tensor<2xi16>
  // CHECK-NEXT: %half = op.constant dense<[1.000000e+00, 6.550400e+04]> : tensor<2xf16>
  %half = op.constant dense<[1.000000e+00, 6.550400e+04]> : tensor<2xf16>
  func.return
}
