// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// CHECK-LABEL: job.job @update
job.job @update placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  // CHECK: job.assign %x to %w : tensor<4xf32>
  job.assign %x to %w : tensor<4xf32>
  // What reads the variable may stand behind the assignment.
  // CHECK-NEXT: job.output "old", %w
  job.output "old", %w : tensor<4xf32>
}

// CHECK-LABEL: job.job @state
job.job @state placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // CHECK: %s = job.state : tensor<4xf32>
  %s = job.state : tensor<4xf32>
  // CHECK: job.assign %x to %s : tensor<4xf32>
  job.assign %x to %s : tensor<4xf32>
  job.output "before", %s : tensor<4xf32>
}
