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

// What several devices have of a gradient that will be whole is added up first; parts are added up as they lie.
// CHECK-LABEL: job.job @devices
job.job @devices placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %v = job.variable "v" init <ones> : tensor<4xf32>
  %x = job.input "x" : tensor<4xf32>
  // CHECK: [[SUM:%.+]] = op.acc %x every 2
  // CHECK: [[MEAN:%.+]] = op.mul [[SUM]]
  // CHECK-NEXT: [[WHOLE:%.+]] = op.reshape [[MEAN]] to [4] {pass = "update", sbp = #job.sbp<B>}
  %g = op.reshape %x to [4] {pass = "backward", sbp = #job.sbp<B>} : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT: [[PART:%.+]] = op.reshape %x to [4] {pass = "backward", sbp = #job.sbp<S(0)>}
  // CHECK-NEXT: op.acc [[PART]] every 2
  %h = op.reshape %x to [4] {pass = "backward", sbp = #job.sbp<S(0)>} : tensor<4xf32> -> tensor<4xf32>
  // CHECK: job.update %w by [[WHOLE]] with <sgd>
  job.update %w by %g with <sgd> : tensor<4xf32>
  job.update %v by %h with <sgd> : tensor<4xf32>
}

// The sum and the mean lie where the gradient is made.
// CHECK-LABEL: job.job @far
job.job @far placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> {placement = #job.placement<cpu, [1:0]>} : tensor<4xf32>
  // CHECK: %g = op.neg
  // CHECK-NEXT: op.acc %g every {{.*}} {pass = "update", placement = #job.placement<cpu, [1:0]>}
  // CHECK: op.mul %g_sum, %{{.*}} {pass = "update", placement = #job.placement<cpu, [1:0]>}
  %g = op.neg %w {pass = "backward", placement = #job.placement<cpu, [1:0]>} : tensor<4xf32> -> tensor<4xf32>
  job.update %w by %g with <sgd> : tensor<4xf32>
}
