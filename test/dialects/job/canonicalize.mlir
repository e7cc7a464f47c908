// RUN: penstock-opt %s -p canonicalize | filecheck %s
// RUN: penstock-opt %s -p job-clean | filecheck %s --check-prefix=CLEAN

!t = tensor<4xf32>

// What waits for nothing is the value itself.

// CHECK-LABEL: job.job @nothing
// CHECK:         %x = job.input "x"
// CHECK-NEXT:    job.output "y", %x
job.job @nothing placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.after %x : !t
  job.output "y", %y : !t
}

// A value does not wait for what it is made of, by whatever way, or for itself.

// CHECK-LABEL: job.job @implied
// CHECK:         %b = op.neg
// CHECK-NEXT:    job.output "y", %b
job.job @implied placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.neg %a : !t -> !t
  %y = job.after %b, %a, %x, %b : !t, !t, !t, !t
  job.output "y", %y : !t
}

// Of equal values one is enough, and of those that others are made of none is needed.

// CHECK-LABEL: job.job @each_once
// CHECK:         job.after %x, %b : tensor<4xf32>, tensor<4xf32>
job.job @each_once placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %z = job.input "z" : !t
  %a = op.relu %z : !t -> !t
  %b = op.neg %a : !t -> !t
  %y = job.after %x, %a, %b, %z, %b : !t, !t, !t, !t, !t
  job.output "y", %y : !t
}

// What another `job.after` has waited for needs no wait.

// CHECK-LABEL: job.job @twice
// CHECK:         %y = job.after %x, %a : tensor<4xf32>, tensor<4xf32>
// CHECK-NEXT:    %r = op.relu %y
// CHECK-NEXT:    job.output "y", %r
job.job @twice placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = job.input "a" : !t
  %y = job.after %x, %a : !t, !t
  %r = op.relu %y : !t -> !t
  %z = job.after %r, %a : !t, !t
  job.output "y", %z : !t
}

// Variables and constants are there all the time.

// CHECK-LABEL: job.job @there
// CHECK-NOT:     job.after
job.job @there placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %c = op.constant dense<[1.0, 2.0, 3.0, 4.0]> : !t
  %y = job.after %x, %w, %c : !t, !t, !t
  job.output "y", %y : !t
}

// But they can wait; an op on what waits is another than one on what does not, and what
// nobody reads is not waited for.

// CHECK-LABEL: job.job @kept
// CLEAN-LABEL: job.job @kept
// CLEAN:         %y = job.after %w, %x {acme.origin = "here"} : tensor<4xf32>, tensor<4xf32>
// CLEAN-NEXT:    %r = op.relu %w
// CLEAN-NEXT:    %s = op.relu %y
// CLEAN-NEXT:    job.output "r", %r
// CLEAN-NEXT:    job.output "s", %s
// CLEAN-NEXT:    job.output "t", %s
job.job @kept placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %y = job.after %w, %x {acme.origin = "here"} : !t, !t
  %same = job.after %w, %x {acme.origin = "here"} : !t, !t
  %unused = job.after %x, %w : !t, !t
  %r = op.relu %w : !t -> !t
  %s = op.relu %y : !t -> !t
  %t = op.relu %same : !t -> !t
  job.output "r", %r : !t
  job.output "s", %s : !t
  job.output "t", %t : !t
}
