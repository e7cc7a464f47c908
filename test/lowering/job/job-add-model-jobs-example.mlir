// RUN: penstock-opt %s -p job-add-model-jobs | filecheck %s --match-full-lines

// The variable `w` gets jobs that set it, restore it from a file, and save it.

// EXAMPLE-BEFORE
job.job @train placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %g = job.input "g" : tensor<4xf32>
  %n = op.sub %w, %g : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.assign %n to %w : tensor<4xf32>
}
// EXAMPLE-AFTER
// CHECK:      job.job @"System-ModelInit" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %w = job.variable "w" init <ones> : tensor<4xf32>
// CHECK-NEXT:   %w_new = job.foreign_input "ForeignInput-System-ModelInit-w" : tensor<4xf32>
// CHECK-NEXT:   job.assign %w_new to %w : tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: job.job @"System-ModelLoad" placement <cpu, [0:0]> attributes {system} {
// CHECK:      job.job @"System-ModelSave" placement <cpu, [0:0]> attributes {system} {
// EXAMPLE-END
