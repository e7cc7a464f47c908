// RUN: penstock-opt %s -p 'job-add-push-pull{shared=true}' | filecheck %s

// Only what several jobs have is brought in and taken out by jobs of the system: here `x`,
// and `h`, which one makes and the other takes.

!t = tensor<4xf32>

// CHECK: job.job @first
job.job @first placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = job.input "a" : !t
  %w = job.variable "w" init <ones> : !t
  %h = op.add %x, %a : !t, !t -> !t
  %y = op.add %h, %w : !t, !t -> !t
  job.output "h", %h : !t
  job.output "y", %y : !t
}

// CHECK: job.job @second
job.job @second placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %h = job.input "h" : !t
  %w = job.variable "w" init <ones> : !t
  %s = op.add %x, %h : !t, !t -> !t
  %z = op.add %s, %w : !t, !t -> !t
  job.output "z", %z : !t
}

// CHECK: job.job @"System-Push-x"
// CHECK: job.job @"System-Pull-h"
// CHECK-NOT: job.job
