// RUN: penstock-opt %s -p job-add-push-pull | filecheck %s --match-full-lines

// The input `x` is brought in, and the output `y` is taken out, by jobs of the system.

// EXAMPLE-BEFORE
job.job @infer placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @"System-Push-x" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %x = job.foreign_input "ForeignInput-System-Push-x" : tensor<4xf32>
// CHECK-NEXT:   job.output "x", %x : tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: job.job @"System-Pull-y" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %[[TAKEN:.+]] = job.input "y" : tensor<4xf32>
// CHECK-NEXT:   job.foreign_output "ForeignOutput-System-Pull-y", %[[TAKEN]] : tensor<4xf32>
// CHECK-NEXT: }
// EXAMPLE-END
