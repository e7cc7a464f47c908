// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s

// CHECK-LABEL: job.job @contraction
job.job @contraction placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  %w = job.input "w" : tensor<8x2xf32>
  %r0 = job.input "r" : tensor<4x2xf32>
  // CHECK:      op.fused %x, %w : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32> {
  // CHECK-NEXT: ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>):
  // CHECK-NEXT:   %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT:   %s = op.relu %m : tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT:   op.yield %s : tensor<4x2xf32>
  // CHECK-NEXT: }
  %r = op.fused %x, %w : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32> {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>):
    %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
    %s = op.relu %m : tensor<4x2xf32> -> tensor<4x2xf32>
    op.yield %s : tensor<4x2xf32>
  }
  job.output "r", %r : tensor<4x2xf32>
  // CHECK:      op.fused %x, %w, %r0 : tensor<4x8xf32>, tensor<8x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32> starts {
  // CHECK-NEXT: ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>, %c: tensor<4x2xf32>):
  // CHECK-NEXT:   %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT:   %s = op.add %m, %c : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT:   %u = op.relu %s : tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT:   op.yield %u : tensor<4x2xf32>
  // CHECK-NEXT: }
  %t = op.fused %x, %w, %r0
    : tensor<4x8xf32>, tensor<8x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32> starts {
  ^bb0(%p: tensor<4x8xf32>, %q: tensor<8x2xf32>, %c: tensor<4x2xf32>):
    %m = op.matmul %p, %q : tensor<4x8xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
    %s = op.add %m, %c : tensor<4x2xf32>, tensor<4x2xf32> -> tensor<4x2xf32>
    %u = op.relu %s : tensor<4x2xf32> -> tensor<4x2xf32>
    op.yield %u : tensor<4x2xf32>
  }
  job.output "t", %t : tensor<4x2xf32>
}
