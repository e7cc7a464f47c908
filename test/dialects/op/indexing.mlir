// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Ops that read and write by indices print as they were written.

// CHECK-LABEL: func.func @gather_elements
func.func @gather_elements(%d: tensor<4x9xf32>, %i: tensor<4x2xi64>) {
  // CHECK-NEXT: %r = op.gather_elements %d[%i] axis 1 : tensor<4x9xf32>, tensor<4x2xi64> -> tensor<4x2xf32>
  %r = op.gather_elements %d[%i] axis 1 : tensor<4x9xf32>, tensor<4x2xi64> -> tensor<4x2xf32>
  return
}

// CHECK-LABEL: func.func @gather_nd
func.func @gather_nd(%d: tensor<4x5x6xf32>, %i: tensor<7x2xi64>) {
  // CHECK-NEXT: %r = op.gather_nd %d[%i] batch 0 : tensor<4x5x6xf32>, tensor<7x2xi64> -> tensor<7x6xf32>
  %r = op.gather_nd %d[%i] batch 0 : tensor<4x5x6xf32>, tensor<7x2xi64> -> tensor<7x6xf32>
  return
}

// CHECK-LABEL: func.func @gather_nd_batch
func.func @gather_nd_batch(%d: tensor<4x5x6xf32>, %i: tensor<4x2xi8>) {
  // CHECK-NEXT: %r = op.gather_nd %d[%i] batch 1 : tensor<4x5x6xf32>, tensor<4x2xi8> -> tensor<4xf32>
  %r = op.gather_nd %d[%i] batch 1 : tensor<4x5x6xf32>, tensor<4x2xi8> -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @scatter_elements
func.func @scatter_elements(%d: tensor<4x9xf32>, %i: tensor<4x2xi64>, %u: tensor<4x2xf32>) {
  // CHECK-NEXT: %r = op.scatter_elements %d[%i], %u axis 1 : tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32> -> tensor<4x9xf32>
  %r = op.scatter_elements %d[%i], %u axis 1 : tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32> -> tensor<4x9xf32>
  return
}

// CHECK-LABEL: func.func @scatter_elements_add
func.func @scatter_elements_add(%d: tensor<4x9xf32>, %i: tensor<4x2xi64>, %u: tensor<4x2xf32>) {
  // CHECK-NEXT: %r = op.scatter_elements %d[%i], %u axis 0 mode add : tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32> -> tensor<4x9xf32>
  %r = op.scatter_elements %d[%i], %u axis 0 mode add : tensor<4x9xf32>, tensor<4x2xi64>, tensor<4x2xf32> -> tensor<4x9xf32>
  return
}

// CHECK-LABEL: func.func @scatter_nd
func.func @scatter_nd(%d: tensor<4x5x6xf32>, %i: tensor<7x2xi64>, %u: tensor<7x6xf32>) {
  // CHECK-NEXT: %r = op.scatter_nd %d[%i], %u : tensor<4x5x6xf32>, tensor<7x2xi64>, tensor<7x6xf32> -> tensor<4x5x6xf32>
  %r = op.scatter_nd %d[%i], %u : tensor<4x5x6xf32>, tensor<7x2xi64>, tensor<7x6xf32> -> tensor<4x5x6xf32>
  return
}

// CHECK-LABEL: func.func @scatter_nd_min
func.func @scatter_nd_min(%d: tensor<4xi32>, %i: tensor<7x1xi64>, %u: tensor<7xi32>) {
  // CHECK-NEXT: %r = op.scatter_nd %d[%i], %u mode min : tensor<4xi32>, tensor<7x1xi64>, tensor<7xi32> -> tensor<4xi32>
  %r = op.scatter_nd %d[%i], %u mode min : tensor<4xi32>, tensor<7x1xi64>, tensor<7xi32> -> tensor<4xi32>
  return
}

// CHECK-LABEL: func.func @unknown_extents
func.func @unknown_extents(%d: tensor<?x9xf32>, %i: tensor<?x2xi64>) {
  // CHECK-NEXT: %r = op.gather_elements %d[%i] axis 1 : tensor<?x9xf32>, tensor<?x2xi64> -> tensor<?x2xf32>
  %r = op.gather_elements %d[%i] axis 1 : tensor<?x9xf32>, tensor<?x2xi64> -> tensor<?x2xf32>
  return
}
