// RUN: penstock-opt %s -p 'job-accumulate{count=2}' | filecheck %s
// RUN: penstock-opt %s -p job-accumulate | filecheck %s --check-prefix ONE

// With one piece all stays as it is.
// ONE-NOT: op.acc %g

// What follows from a gradient follows from the mean; the backward pass goes on with each piece.
// CHECK-LABEL: job.job @readers
job.job @readers placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %x = job.input "x" : tensor<4xf32>
  // CHECK: %g = op.mul
  %g = op.mul %x, %w {pass = "backward"} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: %g_sum = op.acc %g every 2
  // CHECK: %g_mean = op.mul %g_sum
  // CHECK-NEXT: op.neg %g {pass = "backward"}
  %b = op.neg %g {pass = "backward"} : tensor<4xf32> -> tensor<4xf32>
  // CHECK: op.reduce_sum %g_mean
  %s = op.reduce_sum %g axes [0] : tensor<4xf32> -> tensor<f32>
  %bad = op.not_equal %s, %s : tensor<f32>, tensor<f32> -> tensor<i1>
  // CHECK: job.update %w by %g_mean with <sgd> skip %bad
  job.update %w by %g with <sgd> skip %bad : tensor<4xf32>
}

// A gradient that is a sum of pieces already, and a job without updates, are left alone.
// CHECK-LABEL: job.job @declined
job.job @declined placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %x = job.input "x" : tensor<4xf32>
  // CHECK: op.acc %x every 3
  // CHECK-NEXT: job.update
  %g = op.acc %x every 3 : tensor<4xf32> -> tensor<4xf32>
  job.update %w by %g with <sgd> : tensor<4xf32>
}
