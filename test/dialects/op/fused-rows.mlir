// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s

// CHECK-LABEL: job.job @rows
job.job @rows placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf32>
  // CHECK:      %y, %s = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%p: tensor<4x8xf32>):
  // CHECK-NEXT:   %a = op.exp %p : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT:   %n = op.softmax %a : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK-NEXT:   op.yield %n, %a : tensor<4x8xf32>, tensor<4x8xf32>
  // CHECK-NEXT: }
  %y, %s = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32> {
  ^bb0(%p: tensor<4x8xf32>):
    %a = op.exp %p : tensor<4x8xf32> -> tensor<4x8xf32>
    %n = op.softmax %a : tensor<4x8xf32> -> tensor<4x8xf32>
    op.yield %n, %a : tensor<4x8xf32>, tensor<4x8xf32>
  }
  job.output "y", %y : tensor<4x8xf32>
  job.output "s", %s : tensor<4x8xf32>
}
