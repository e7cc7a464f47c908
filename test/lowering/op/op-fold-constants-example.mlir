// RUN: penstock-opt %s -p op-fold-constants | filecheck %s --match-full-lines

// The sum of two constants is a constant. `a` and `b`, which nothing reads any more, are
// left to `job-clean`.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %a = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = op.constant dense<0.5> : tensor<2xf32>
  %s = op.add %a, %b : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %x = job.input "x" : tensor<2xf32>
  %y = op.mul %x, %s : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  job.output "y", %y : tensor<2xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %a = op.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:   %b = op.constant dense<5.000000e-01> : tensor<2xf32>
// CHECK-NEXT:   %s = op.constant dense<[1.500000e+00, 2.500000e+00]> : tensor<2xf32>
// CHECK-NEXT:   %x = job.input "x" : tensor<2xf32>
// CHECK-NEXT:   %y = op.mul %x, %s : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<2xf32>
// CHECK-NEXT: }
// EXAMPLE-END
