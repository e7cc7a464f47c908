// RUN: penstock-opt %s --split-input-file | filecheck %s
// RUN: penstock-opt %s --split-input-file --print-op-generic | penstock-opt --split-input-file | filecheck %s

// Targets are updated where indices say, by others that have a row for each index or one element.

// CHECK-LABEL: func.func @update
func.func @update(%i: tensor<2xi64>, %w: tensor<9x4xf32>, %m: tensor<9x4xf32>, %g: tensor<2x4xf32>, %s: tensor<f32>) {
  // CHECK-NEXT: %r, %t = op.update_rows %i of %w, %m by %g, %s : tensor<2xi64> of tensor<9x4xf32>, tensor<9x4xf32> by tensor<2x4xf32>, tensor<f32> -> tensor<9x4xf32>, tensor<9x4xf32> {
  %r, %t = op.update_rows %i of %w, %m by %g, %s : tensor<2xi64> of tensor<9x4xf32>, tensor<9x4xf32> by tensor<2x4xf32>, tensor<f32> -> tensor<9x4xf32>, tensor<9x4xf32> {
  // CHECK-NEXT: ^bb0(%p: tensor<2x4xf32>, %q: tensor<2x4xf32>, %d: tensor<2x4xf32>, %e: tensor<f32>):
  ^bb0(%p: tensor<2x4xf32>, %q: tensor<2x4xf32>, %d: tensor<2x4xf32>, %e: tensor<f32>):
    %a = op.mul %d, %e : tensor<2x4xf32>, tensor<f32> -> tensor<2x4xf32>
    %b = op.add %q, %a : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
    %c = op.sub %p, %b : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
    // CHECK:      op.yield %c, %b
    op.yield %c, %b : tensor<2x4xf32>, tensor<2x4xf32>
  }
  return
}
