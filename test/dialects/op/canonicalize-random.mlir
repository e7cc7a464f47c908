// RUN: penstock-opt %s -p canonicalize | filecheck %s

// A dropout that drops nothing is its operand.
// CHECK-LABEL: job.job @nothing
job.job @nothing placement <cpu, [0:0]> {
  // CHECK-NEXT: %x = job.input
  %x = job.input "x" : tensor<4xf32>
  %n = job.input "n" : tensor<i64>
  %a = op.dropout %x, %n, %n ratio 0 : tensor<4xf32>, tensor<i64>, tensor<i64> -> tensor<4xf32>
  // CHECK: job.output "a", %x
  job.output "a", %a : tensor<4xf32>
  // CHECK-NEXT: %b = op.dropout
  %b = op.dropout %x, %n, %n ratio 0.5 : tensor<4xf32>, tensor<i64>, tensor<i64> -> tensor<4xf32>
  job.output "b", %b : tensor<4xf32>
}
