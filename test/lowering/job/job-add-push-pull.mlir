// RUN: penstock-opt %s -p job-add-push-pull --split-input-file | filecheck %s
// RUN: penstock-opt %s -p job-add-push-pull,job-add-push-pull --split-input-file | filecheck %s

// Each input gets a job that brings it in, each output one that takes it out, once for all
// jobs that have it. What a job makes for another one is not brought in. They are listed
// behind all jobs, but those that are there stay.

!t = tensor<4xf32>
!s = tensor<2xf64>

// CHECK: job.job @first
job.job @first placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %r = op.relu %x : !t -> !t
  job.output "between", %r : !t
}

// CHECK: job.job @"System-Pull-between" placement <cpu, [0:0]> attributes {system, acme.mine} {
job.job @"System-Pull-between" placement <cpu, [0:0]> attributes {system, acme.mine} {
  %y = job.input "between" : !t
  job.foreign_output "mine", %y : !t
}

// CHECK: job.job @second
job.job @second placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %b = job.input "between" : !t
  %a = op.add %x, %b : !t, !t -> !t
  job.output "y", %a : !t
}

"test.op"() : () -> ()

// CHECK-NOT: System-Push-between
// CHECK:      job.job @"System-Push-x" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %[[X:.+]] = job.foreign_input "ForeignInput-System-Push-x" : tensor<4xf32>
// CHECK-NEXT:   job.output "x", %[[X]] : tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: job.job @"System-Pull-y" placement <cpu, [0:0]> attributes {system} {
// CHECK-NEXT:   %[[Y:.+]] = job.input "y" : tensor<4xf32>
// CHECK-NEXT:   job.foreign_output "ForeignOutput-System-Pull-y", %[[Y]] : tensor<4xf32>
// CHECK-NEXT: }
// CHECK-NEXT: "test.op"

// -----

// They are on the host that the job has its ports on.

// CHECK-LABEL: job.job @far
job.job @far placement <cuda, [1:2]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}

// CHECK-LABEL: job.job @"System-Push-x" placement <cpu, [1:0]>
// CHECK-NEXT:   %[[X:.+]] = job.foreign_input "ForeignInput-System-Push-x" : tensor<4xf32>
// CHECK-NEXT:   job.output "x", %[[X]] : tensor<4xf32>
// CHECK-LABEL: job.job @"System-Pull-y" placement <cpu, [1:0]>
// CHECK-NEXT:   %[[Y:.+]] = job.input "y" : tensor<4xf32>
// CHECK-NEXT:   job.foreign_output "ForeignOutput-System-Pull-y", %[[Y]] : tensor<4xf32>

// -----

// What has open extents says how large it may be: what is pushed like the input, what is
// pulled as the job that makes it.

!t = tensor<?x4xf32>

// CHECK:      job.job @"System-Push-x" {{.*}} {
// CHECK-NEXT:   job.foreign_input "ForeignInput-System-Push-x" {max_shape = array<i64: 8, 4>} : tensor<?x4xf32>
// CHECK:      job.job @"System-Pull-y" {{.*}} {
// CHECK-NEXT:   job.input "y" {max_shape = array<i64: 16, 4>} : tensor<?x4xf32>
job.job @open placement <cpu, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 8, 4>} : !t
  %y = op.concat %x, %x axis 0 : !t, !t -> !t
  job.output "y", %y : !t
}

// -----

// What nothing is known of is left for others to complain about.

!t = tensor<?x4xf32>

// CHECK:      job.job @"System-Push-x" {{.*}} {
// CHECK-NEXT:   job.foreign_input "ForeignInput-System-Push-x" : tensor<?x4xf32>
// CHECK:      job.job @"System-Pull-y" {{.*}} {
// CHECK-NEXT:   job.input "y" : tensor<?x4xf32>
job.job @unknown placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  job.output "y", %x : !t
}
