// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p op-infer-shapes | filecheck %s

// CHECK-LABEL: job.job @bits
job.job @bits placement <cpu, [0:0]> {
  %seed = job.variable "seed" init <constant, value = 7> : tensor<i64>
  %step = job.variable "step" init <zeros> : tensor<i64>
  // CHECK: %a = op.random_bits %seed, %step to [] : tensor<i64>, tensor<i64> -> tensor<ui32>
  %a = op.random_bits %seed, %step to [] : tensor<i64>, tensor<i64> -> tensor<ui32>
  // CHECK: %b = op.random_bits %seed, %step number 3 to [4, 0] : tensor<i64>, tensor<i64> -> tensor<4x0xui32>
  %b = op.random_bits %seed, %step number 3 to [4, 0] : tensor<i64>, tensor<i64> -> tensor<4x0xui32>
  // CHECK: %c = op.random_bits %seed, %step number 3 to [2, 7] part [1, 5] of [4, 12] : tensor<i64>, tensor<i64> -> tensor<2x7xui32>
  %c = op.random_bits %seed, %step number 3 to [2, 7] part [1, 5] of [4, 12] : tensor<i64>, tensor<i64> -> tensor<2x7xui32>
  job.output "a", %a : tensor<ui32>
  job.output "b", %b : tensor<4x0xui32>
  job.output "c", %c : tensor<2x7xui32>
}

// CHECK-LABEL: job.job @dropout
job.job @dropout placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8xf16>
  %seed = job.input "seed" : tensor<i64>
  %step = job.input "step" : tensor<i64>
  // CHECK: %a = op.dropout %x, %seed, %step ratio 0.1 : tensor<4x8xf16>, tensor<i64>, tensor<i64> -> tensor<4x8xf16>
  %a = op.dropout %x, %seed, %step ratio 0.1 : tensor<4x8xf16>, tensor<i64>, tensor<i64> -> tensor<4x8xf16>
  // CHECK: %b = op.dropout %x, %seed, %step number 4294967295 ratio 0.5 part [0, 8] of [4, 16] : tensor<4x8xf16>, tensor<i64>, tensor<i64> -> tensor<4x8xf16>
  %b = op.dropout %x, %seed, %step number 4294967295 ratio 0.5 part [0, 8] of [4, 16] : tensor<4x8xf16>, tensor<i64>, tensor<i64> -> tensor<4x8xf16>
  job.output "a", %a : tensor<4x8xf16>
  job.output "b", %b : tensor<4x8xf16>
}
