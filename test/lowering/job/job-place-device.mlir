// RUN: penstock-opt %s -p 'job-place{device=cuda}' | filecheck %s
// RUN: penstock-opt %s -p 'job-place{device=cuda},job-place{device=cuda}' | filecheck %s

// The option changes the kind of the job's device, not its rank, its index, the
// hierarchy, or the placement of ops that have their own.

!t = tensor<4xf32>

// CHECK-LABEL: job.job @moved placement <cuda, [1:3], hierarchy = [1, 1]> {
job.job @moved placement <cpu, [1:3], hierarchy = [1, 1]> {
  // CHECK-NEXT: %x = job.input "x"
  // CHECK-NEXT: %[[C:.+]] = job.copy %x to <1, cuda:3>
  %x = job.input "x" : !t
  // CHECK-NEXT: %[[A:.+]] = op.relu %[[C]]
  // CHECK-NEXT: %[[H:.+]] = job.copy %[[A]] to <1, cpu:3>
  %a = op.relu %x : !t -> !t
  // CHECK-NEXT: op.relu %[[H]] {placement = #job.placement<cpu, [1:3]>}
  %b = op.relu %a {placement = #job.placement<cpu, [1:3]>} : !t -> !t
}
