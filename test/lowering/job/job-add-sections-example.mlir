// RUN: penstock-opt %s -p job-add-sections | filecheck %s --match-full-lines

// The job says which variables and inputs it reads, and which outputs it writes, so that
// others can run at the same time where that is safe.

// EXAMPLE-BEFORE
job.job @infer placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %s = op.add %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %s : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @infer placement <cpu, [0:0]> attributes {sections = [#job.section<"total", total reads ["w"]>, #job.section<"input/x", input reads ["x"]>, #job.section<"outputs", outputs writes ["y"]>]} {
// CHECK-NEXT:   %x = job.input "x" : tensor<4xf32>
// CHECK-NEXT:   %w = job.variable "w" init <zeros> : tensor<4xf32>
// CHECK-NEXT:   %s = op.add %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:   job.output "y", %s : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
