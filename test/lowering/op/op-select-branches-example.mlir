// RUN: penstock-opt %s -p op-select-branches | filecheck %s --match-full-lines

// Both bodies are computed, and the condition selects.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %c = job.input "c" : tensor<i1>
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> { ^bb0(%a: tensor<4xf32>):
    %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
    op.yield %e : tensor<4xf32>
  } else { ^bb0(%b: tensor<4xf32>):
    op.yield %b : tensor<4xf32> }
  job.output "y", %y : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @example placement <cpu, [0:0]> {
// CHECK-NEXT:   %x = job.input "x" : tensor<4xf32>
// CHECK-NEXT:   %c = job.input "c" : tensor<i1>
// CHECK-NEXT:   %e = op.exp %x : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   %y = op.where %c, %e, %x : tensor<i1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   job.output "y", %y : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
