// RUN: penstock-opt %s -p op-unroll-loops | filecheck %s --match-full-lines

// Two iterations: the second one reads the sum that the first one has made.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %w = job.input "w" : tensor<4xf32>
  %b = op.loop 2 carries(%a : tensor<4xf32>) reads(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>, %v: tensor<4xf32>):
    %d = op.add %c, %v : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    op.yield %d : tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %a = job.input "a" : tensor<4xf32>
// CHECK-NEXT:   %w = job.input "w" : tensor<4xf32>
// CHECK-NEXT:   %d = op.add %a, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %b = op.add %d, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   job.output "b", %b : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
