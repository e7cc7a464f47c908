// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Ops that select and scan along an axis print as they were written.

// CHECK-LABEL: func.func @arg_max
func.func @arg_max(%a: tensor<4x8xf32>) {
  // CHECK-NEXT: %r = op.arg_max %a axis 1 : tensor<4x8xf32> -> tensor<4x1xi64>
  %r = op.arg_max %a axis 1 : tensor<4x8xf32> -> tensor<4x1xi64>
  return
}

// CHECK-LABEL: func.func @arg_min_last
func.func @arg_min_last(%a: tensor<4x8xi8>) {
  // CHECK-NEXT: %r = op.arg_min %a axis -2 last : tensor<4x8xi8> -> tensor<1x8xi64>
  %r = op.arg_min %a axis -2 last : tensor<4x8xi8> -> tensor<1x8xi64>
  return
}

// CHECK-LABEL: func.func @top_k
func.func @top_k(%a: tensor<4x8xf32>) {
  // CHECK-NEXT: %r, %p = op.top_k %a count 3 axis 1 : tensor<4x8xf32> -> tensor<4x3xf32>, tensor<4x3xi64>
  %r, %p = op.top_k %a count 3 axis 1 : tensor<4x8xf32> -> tensor<4x3xf32>, tensor<4x3xi64>
  return
}

// CHECK-LABEL: func.func @top_k_smallest
func.func @top_k_smallest(%a: tensor<4x8xi16>) {
  // CHECK-NEXT: %r, %p = op.top_k %a count 0 axis 0 smallest : tensor<4x8xi16> -> tensor<0x8xi16>, tensor<0x8xi64>
  %r, %p = op.top_k %a count 0 axis 0 smallest : tensor<4x8xi16> -> tensor<0x8xi16>, tensor<0x8xi64>
  return
}

// CHECK-LABEL: func.func @cum_sum
func.func @cum_sum(%a: tensor<4x8xf32>) {
  // CHECK-NEXT: %r = op.cum_sum %a axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  %r = op.cum_sum %a axis 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @cum_sum_flags
func.func @cum_sum_flags(%a: tensor<4x8xf32>) {
  // CHECK-NEXT: %r = op.cum_sum %a axis -1 exclusive reverse : tensor<4x8xf32> -> tensor<4x8xf32>
  %r = op.cum_sum %a axis -1 exclusive reverse : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @cum_prod
func.func @cum_prod(%a: tensor<4x8xi32>) {
  // CHECK-NEXT: %r = op.cum_prod %a axis 0 reverse : tensor<4x8xi32> -> tensor<4x8xi32>
  %r = op.cum_prod %a axis 0 reverse : tensor<4x8xi32> -> tensor<4x8xi32>
  return
}
