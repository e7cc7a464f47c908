// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Ops whose results have as many elements as data says print as they were written.

// CHECK-LABEL: func.func @non_zero
func.func @non_zero(%a: tensor<4x8xf32>) {
  // CHECK-NEXT: %p, %n = op.non_zero %a : tensor<4x8xf32> -> tensor<2x32xi64>, tensor<i64>
  %p, %n = op.non_zero %a : tensor<4x8xf32> -> tensor<2x32xi64>, tensor<i64>
  return
}

// A maximum that is given makes room for as many elements, where there may be more.

// CHECK-LABEL: func.func @non_zero_at_most
func.func @non_zero_at_most(%a: tensor<4xi1>) {
  // CHECK-NEXT: %p, %n = op.non_zero %a max 3 : tensor<4xi1> -> tensor<1x3xi64>, tensor<i64>
  %p, %n = op.non_zero %a max 3 : tensor<4xi1> -> tensor<1x3xi64>, tensor<i64>
  // CHECK-NEXT: %q, %m = op.non_zero %a max 9 : tensor<4xi1> -> tensor<1x4xi64>, tensor<i64>
  %q, %m = op.non_zero %a max 9 : tensor<4xi1> -> tensor<1x4xi64>, tensor<i64>
  return
}

// CHECK-LABEL: func.func @compress
func.func @compress(%a: tensor<4x8xf16>, %mask: tensor<7xi1>) {
  // CHECK-NEXT: %r, %n = op.compress %a by %mask axis -1 : tensor<4x8xf16>, tensor<7xi1> -> tensor<4x7xf16>, tensor<i64>
  %r, %n = op.compress %a by %mask axis -1 : tensor<4x8xf16>, tensor<7xi1> -> tensor<4x7xf16>, tensor<i64>
  // CHECK-NEXT: %s, %m = op.compress %a by %mask axis 1 max 2 : tensor<4x8xf16>, tensor<7xi1> -> tensor<4x2xf16>, tensor<i64>
  %s, %m = op.compress %a by %mask axis 1 max 2 : tensor<4x8xf16>, tensor<7xi1> -> tensor<4x2xf16>, tensor<i64>
  return
}

// CHECK-LABEL: func.func @unique
func.func @unique(%a: tensor<9x2xi8>) {
  // CHECK-NEXT: %r, %f, %p, %t, %n = op.unique %a : tensor<9x2xi8> -> tensor<9x2xi8>, tensor<9xi64>, tensor<9xi64>, tensor<9xi64>, tensor<i64>
  %r, %f, %p, %t, %n = op.unique %a : tensor<9x2xi8> -> tensor<9x2xi8>, tensor<9xi64>, tensor<9xi64>, tensor<9xi64>, tensor<i64>
  // CHECK-NEXT: %s, %g, %q, %u, %m = op.unique %a sorted : tensor<9x2xi8> -> tensor<9x2xi8>, tensor<9xi64>, tensor<9xi64>, tensor<9xi64>, tensor<i64>
  %s, %g, %q, %u, %m = op.unique %a sorted : tensor<9x2xi8> -> tensor<9x2xi8>, tensor<9xi64>, tensor<9xi64>, tensor<9xi64>, tensor<i64>
  return
}

// CHECK-LABEL: func.func @non_max_suppression
func.func @non_max_suppression(%b: tensor<2x50x4xf32>, %s: tensor<2x3x50xf32>, %t: tensor<f32>) {
  // CHECK-NEXT: %r, %n, %k = op.non_max_suppression %b, %s, %t, %t most 10 : tensor<2x50x4xf32>, tensor<2x3x50xf32>, tensor<f32>, tensor<f32> -> tensor<60x3xi64>, tensor<i64>, tensor<2x3x50xi64>
  %r, %n, %k = op.non_max_suppression %b, %s, %t, %t most 10 : tensor<2x50x4xf32>, tensor<2x3x50xf32>, tensor<f32>, tensor<f32> -> tensor<60x3xi64>, tensor<i64>, tensor<2x3x50xi64>
  // CHECK-NEXT: %p, %m, %l = op.non_max_suppression %b, %s, %t most 99 centers max 7 : tensor<2x50x4xf32>, tensor<2x3x50xf32>, tensor<f32> -> tensor<7x3xi64>, tensor<i64>, tensor<2x3x50xi64>
  %p, %m, %l = op.non_max_suppression %b, %s, %t most 99 centers max 7 : tensor<2x50x4xf32>, tensor<2x3x50xf32>, tensor<f32> -> tensor<7x3xi64>, tensor<i64>, tensor<2x3x50xi64>
  return
}
