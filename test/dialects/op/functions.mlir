// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Functions of floats print as they were written.

// CHECK-LABEL: func.func @acos
func.func @acos(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.acos %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.acos %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @acosh
func.func @acosh(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.acosh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.acosh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @asin
func.func @asin(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.asin %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.asin %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @asinh
func.func @asinh(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.asinh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.asinh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @atan
func.func @atan(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.atan %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.atan %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @atanh
func.func @atanh(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.atanh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.atanh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @cos
func.func @cos(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.cos %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.cos %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @cosh
func.func @cosh(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.cosh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.cosh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @log1p
func.func @log1p(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.log1p %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.log1p %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @rem
func.func @rem(%a: tensor<?x4xf32>, %b: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.rem %a, %b : tensor<?x4xf32>, tensor<4xf32> -> tensor<?x4xf32>
  %r = op.rem %a, %b : tensor<?x4xf32>, tensor<4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @round
func.func @round(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.round %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.round %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @sin
func.func @sin(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.sin %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.sin %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @sinh
func.func @sinh(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.sinh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.sinh %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}

// CHECK-LABEL: func.func @tan
func.func @tan(%a: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.tan %a : tensor<?x4xf32> -> tensor<?x4xf32>
  %r = op.tan %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return
}
