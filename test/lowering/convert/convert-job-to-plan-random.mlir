// RUN: penstock-opt %s -p job-infer-sbp,job-insert-boxing,convert-job-to-plan | filecheck %s

// Each device makes the bits of its own places in the whole tensor.
// CHECK-LABEL: plan.plan @parts
job.job @parts placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<5x7xf32>
  %n = job.variable "seed" init <constant, value = 7> : tensor<i64>
  // CHECK: op.dropout {{.*}} number 3 ratio 0.5 part [0, 0] of [5, 7] : tensor<5x4xf32>
  // CHECK: op.dropout {{.*}} number 3 ratio 0.5 part [0, 4] of [5, 7] : tensor<5x3xf32>
  %a = op.dropout %x, %n, %n number 3 ratio 0.5 {sbp = #job.sbp<S(1)>} : tensor<5x7xf32>, tensor<i64>, tensor<i64> -> tensor<5x7xf32>
  // CHECK: op.random_bits {{.*}} to [3, 7] part [0, 0] of [5, 7]
  // CHECK: op.random_bits {{.*}} to [2, 7] part [3, 0] of [5, 7]
  %b = op.random_bits %n, %n to [5, 7] {sbp = #job.sbp<S(0)>} : tensor<i64>, tensor<i64> -> tensor<5x7xui32>
  job.output "a", %a : tensor<5x7xf32>
  job.output "b", %b : tensor<5x7xui32>
}

// A dropout of the terms of a sum is the terms of a dropout: all devices drop the same.
// CHECK-LABEL: plan.plan @terms
job.job @terms placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<5x6x7xf32>
  %n = job.variable "seed" init <constant, value = 7> : tensor<i64>
  %y = op.reduce_sum %x axes [1] {sbp = #job.sbp<P>} : tensor<5x6x7xf32> -> tensor<5x7xf32>
  // CHECK: op.dropout {{.*}} ratio 0.5 : tensor<5x7xf32>
  // CHECK: op.dropout {{.*}} ratio 0.5 : tensor<5x7xf32>
  %a = op.dropout %y, %n, %n ratio 0.5 {sbp = #job.sbp<P>} : tensor<5x7xf32>, tensor<i64>, tensor<i64> -> tensor<5x7xf32>
  job.output "a", %a : tensor<5x7xf32>
}
