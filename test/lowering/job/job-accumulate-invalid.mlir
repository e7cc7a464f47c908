// RUN: not penstock-opt %s -p 'job-accumulate{count=0}' 2>&1 | filecheck %s

// CHECK: error: job-accumulate: the count should be at least 1, got 0
job.job @count placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "x", %x : tensor<4xf32>
}
