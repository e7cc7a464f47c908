// RUN: penstock-opt %s -p job-clean | filecheck %s --match-full-lines

// A reshape that changes nothing folds, and of two equal ops one stays.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %r = op.reshape %x to [4] : tensor<4xf32> -> tensor<4xf32>
  %a = op.exp %r : tensor<4xf32> -> tensor<4xf32>
  %b = op.exp %x : tensor<4xf32> -> tensor<4xf32>
  %s = op.add %a, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %s : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<4xf32>
// CHECK-NEXT:   %a = op.exp %x : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %s = op.add %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   job.output "y", %s : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
