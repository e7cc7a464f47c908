// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Matrix products print as they were written.

// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // CHECK-NEXT: %r = op.matmul %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %r = op.matmul %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @matmul_transposed
func.func @matmul_transposed(%a: tensor<3x2xf32>, %b: tensor<4x3xf32>) {
  // CHECK-NEXT: %r = op.matmul %a, %b transpose_a transpose_b : tensor<3x2xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  %r = op.matmul %a, %b transpose_a transpose_b : tensor<3x2xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
  return
}

// Bytes of any sign make sums of 32 bits.

// CHECK-LABEL: func.func @matmul_of_bytes
func.func @matmul_of_bytes(%a: tensor<2x3xui8>, %b: tensor<4x3xi8>) {
  // CHECK-NEXT: %r = op.matmul %a, %b transpose_b wide : tensor<2x3xui8>, tensor<4x3xi8> -> tensor<2x4xi32>
  %r = op.matmul %a, %b transpose_b wide : tensor<2x3xui8>, tensor<4x3xi8> -> tensor<2x4xi32>
  return
}

// All dimensions before the last two are broadcast.

// CHECK-LABEL: func.func @matmul_of_stacks
func.func @matmul_of_stacks(%a: tensor<5x1x2x3xf32>, %b: tensor<6x4x3xf32>) {
  // CHECK-NEXT: %r = op.matmul %a, %b transpose_b : tensor<5x1x2x3xf32>, tensor<6x4x3xf32> -> tensor<5x6x2x4xf32>
  %r = op.matmul %a, %b transpose_b : tensor<5x1x2x3xf32>, tensor<6x4x3xf32> -> tensor<5x6x2x4xf32>
  return
}

// A tensor of one dimension is a row or a column.

// CHECK-LABEL: func.func @matmul_of_vectors
func.func @matmul_of_vectors(%a: tensor<3xi32>, %b: tensor<3xi32>) {
  // CHECK-NEXT: %r = op.matmul %a, %b : tensor<3xi32>, tensor<3xi32> -> tensor<i32>
  %r = op.matmul %a, %b : tensor<3xi32>, tensor<3xi32> -> tensor<i32>
  return
}

// CHECK-LABEL: func.func @matmul_of_vector_and_matrix
func.func @matmul_of_vector_and_matrix(%a: tensor<3xf32>, %b: tensor<5x3x4xf32>) {
  // CHECK-NEXT: %r = op.matmul %a, %b : tensor<3xf32>, tensor<5x3x4xf32> -> tensor<5x4xf32>
  %r = op.matmul %a, %b : tensor<3xf32>, tensor<5x3x4xf32> -> tensor<5x4xf32>
  return
}

// Extents that are not known fit all, also in the result.

// CHECK-LABEL: func.func @matmul_of_unknown_extents
func.func @matmul_of_unknown_extents(%a: tensor<?x2x?xf32>, %b: tensor<3x?xf32>) {
  // CHECK-NEXT: %r = op.matmul %a, %b : tensor<?x2x?xf32>, tensor<3x?xf32> -> tensor<?x2x?xf32>
  %r = op.matmul %a, %b : tensor<?x2x?xf32>, tensor<3x?xf32> -> tensor<?x2x?xf32>
  return
}

// CHECK-LABEL: func.func @gemm
func.func @gemm(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) {
  // CHECK-NEXT: %r = op.gemm %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  %r = op.gemm %a, %b : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @gemm_with_addend
func.func @gemm_with_addend(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %c: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.gemm %a, %b, %c : tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  %r = op.gemm %a, %b, %c : tensor<2x3xf32>, tensor<3x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @gemm_with_all
func.func @gemm_with_all(%a: tensor<3x2xf32>, %b: tensor<4x3xf32>, %c: tensor<2x1xf32>) {
  // CHECK-NEXT: %r = op.gemm %a, %b, %c transpose_a transpose_b alpha 5.000000e-01 beta 2.000000e+00 : tensor<3x2xf32>, tensor<4x3xf32>, tensor<2x1xf32> -> tensor<2x4xf32>
  %r = op.gemm %a, %b, %c transpose_a transpose_b alpha 5.000000e-01 beta 2.000000e+00 : tensor<3x2xf32>, tensor<4x3xf32>, tensor<2x1xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @wide_sums_of_bf16
func.func @wide_sums_of_bf16(%a: tensor<2x3xbf16>, %b: tensor<3x4xbf16>, %c: tensor<4xf32>) {
  // CHECK-NEXT: %r = op.matmul %a, %b wide : tensor<2x3xbf16>, tensor<3x4xbf16> -> tensor<2x4xf32>
  %r = op.matmul %a, %b wide : tensor<2x3xbf16>, tensor<3x4xbf16> -> tensor<2x4xf32>
  // CHECK-NEXT: %s = op.gemm %a, %b, %c alpha 5.000000e-01 wide : tensor<2x3xbf16>, tensor<3x4xbf16>, tensor<4xf32> -> tensor<2x4xf32>
  %s = op.gemm %a, %b, %c alpha 0.5 wide : tensor<2x3xbf16>, tensor<3x4xbf16>, tensor<4xf32> -> tensor<2x4xf32>
  return
}

// CHECK-LABEL: func.func @gemm_of_unknown_extents
func.func @gemm_of_unknown_extents(%a: tensor<?x3xf32>, %b: tensor<?x?xf32>, %c: tensor<?x4xf32>) {
  // CHECK-NEXT: %r = op.gemm %a, %b, %c : tensor<?x3xf32>, tensor<?x?xf32>, tensor<?x4xf32> -> tensor<?x?xf32>
  %r = op.gemm %a, %b, %c : tensor<?x3xf32>, tensor<?x?xf32>, tensor<?x4xf32> -> tensor<?x?xf32>
  return
}
