// RUN: penstock-opt %s -p job-add-sections --split-input-file | filecheck %s

!t = tensor<4xf32>

// Variables are in the total section, those that are assigned to as written; each input
// has a section, and all outputs have one.

// CHECK-LABEL: job.job @train
// CHECK-SAME: {sections = [#job.section<"total", total reads ["v"] writes ["w"]>,
// CHECK-SAME: #job.section<"input/x", input reads ["x"]>, #job.section<"input/y", input reads ["y"]>,
// CHECK-SAME: #job.section<"outputs", outputs writes ["a", "b"]>]}
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %w = job.variable "w" init <ones> : !t
  %v = job.variable "v" init <ones> : !t
  job.output "a", %x : !t
  job.assign %y to %w : !t
  job.output "b", %v : !t
}

// -----

// Without inputs and outputs there is the total one alone, also in a job of the system.

// CHECK-LABEL: job.job @foreign
// CHECK-SAME: {system, sections = [#job.section<"total", total reads ["w"]>]}
job.job @foreign placement <cpu, [0:0]> attributes {system} {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  job.foreign_output "w", %w : tensor<4xf32>
}

// -----

// What is said stays.

// CHECK-LABEL: job.job @said
// CHECK-SAME: {sections = [#job.section<"mine", total reads ["x"]>]}
job.job @said placement <cpu, [0:0]> attributes {sections = [#job.section<"mine", total reads ["x"]>]} {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}

// -----

// States are of their job alone.

// CHECK-LABEL: job.job @steps
// CHECK-SAME: {sections = [#job.section<"total", total reads ["v"]>,
// CHECK-SAME: #job.section<"input/x", input reads ["x"]>]}
job.job @steps placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %v = job.variable "v" init <ones> : tensor<4xf32>
  %s = job.state : tensor<4xf32>
  job.assign %x to %s : tensor<4xf32>
}
