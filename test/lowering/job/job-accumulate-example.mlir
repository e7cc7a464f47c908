// RUN: penstock-opt %s -p 'job-accumulate{count=4}' | filecheck %s --match-full-lines

// One update by the mean gradient of four pieces.

// EXAMPLE-BEFORE
job.job @example placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8xf32>
  %w = job.variable "w" init <ones> : tensor<8xf32>
  %g = op.mul %x, %w {pass = "backward"} : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  job.update %w by %g with <sgd> : tensor<8xf32>
}
// EXAMPLE-AFTER
// EXAMPLE-END
