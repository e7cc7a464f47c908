// RUN: penstock-opt %s -p 'job-cast-amp{type=f16}' | filecheck %s
// RUN: penstock-opt %s -p 'job-cast-amp{type=f16 loss-scale=8 growth=3 backoff=0.25 interval=7}' | filecheck %s --check-prefix RULE
// RUN: penstock-opt %s -p 'job-cast-amp{type=bf16}' | filecheck %s --check-prefix OTHER
// RUN: penstock-opt %s -p 'job-cast-amp{type=f16},job-add-gradients,job-add-updates' | filecheck %s --check-prefix WHOLE

// Only gradients in f16 need a scale.
// OTHER-NOT: train/loss_scale
// OTHER-NOT: op.all_finite
// OTHER: job.job @none

// The scale is in the seed of the gradients, updates divide by it and are skipped, and other readers get gradients without it.
// CHECK-LABEL: job.job @train
job.job @train placement <cpu, [0:0]> {
  // CHECK-NEXT: %loss_scale = job.variable "train/loss_scale" init <constant, value = 65536.0> {pass = "update"} : tensor<f32>
  // CHECK-NEXT: %good_steps = job.variable "train/good_steps" init <zeros> {pass = "update"} : tensor<i64>
  %w = job.variable "w" init <ones> : tensor<4x4xf32>
  %v = job.variable "v" init <ones> : tensor<4x4xf32>
  %h = op.matmul %w, %v : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %loss = op.reduce_sum %h axes [0, 1] : tensor<4x4xf32> -> tensor<f32>
  // CHECK: %g, %k = job.gradients of %loss by %w, %v scale %loss_scale :
  // CHECK-NEXT: %k_unscaled = op.div %k, %loss_scale :
  %g, %k = job.gradients of %loss by %w, %v : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
  // CHECK-NEXT: %n = op.neg %k_unscaled
  %n = op.neg %k : tensor<4x4xf32> -> tensor<4x4xf32>
  job.update %w by %g with <sgd, rate = 0.1, clip_norm = 1.0> : tensor<4x4xf32>
  // CHECK-NEXT: job.output "k", %k_unscaled
  job.output "k", %k : tensor<4x4xf32>
  // CHECK-NEXT: [[G:%.*]] = op.all_finite %g {pass = "update"}
  // CHECK-NEXT: [[N:%.*]] = op.all_finite %n {pass = "update"}
  // CHECK-NEXT: [[GOOD:%.*]] = op.logical_and [[G]], [[N]]
  // CHECK-NEXT: [[SKIP:%.*]] = op.logical_not [[GOOD]]
  // CHECK-NEXT: job.update %w by %g with <sgd, rate = 0.1, clip_norm = 1.0> scale %loss_scale skip [[SKIP]]
  // A gradient that is made of others has no scale any more.
  // CHECK-NEXT: job.update %v by %n with <sgd, rate = 0.1> skip [[SKIP]]
  job.update %v by %n with <sgd, rate = 0.1> : tensor<4x4xf32>
  // CHECK: op.constant {{.*}}dense<2000> : tensor<i64>
  // CHECK: op.constant {{.*}}dense<2.000000e+00> : tensor<f32>
  // CHECK: op.constant {{.*}}dense<5.000000e-01> : tensor<f32>
  // CHECK: job.assign %loss_scale_next to %loss_scale
  // CHECK-NEXT: job.assign %good_steps_next to %good_steps
  // RULE: "train/loss_scale" init <constant, value = 8.0>
  // RULE: op.constant {{.*}}dense<7> : tensor<i64>
  // RULE: op.constant {{.*}}dense<3.000000e+00> : tensor<f32>
  // RULE: op.constant {{.*}}dense<2.500000e-01> : tensor<f32>

  // The seed of the gradients is the scale.
  // WHOLE-LABEL: job.job @train
  // WHOLE: [[SEED:%.*]] = op.reshape %loss_scale to [1, 1] {pass = "backward"}
  // WHOLE-NEXT: %h_grad = op.expand [[SEED]]
  // WHOLE: job.assign %w_next to %w
}

// Scales and conditions that are there already count, too, and scales have the types of losses and variables.
// CHECK-LABEL: job.job @both
job.job @both placement <cpu, [0:0]> {
  // A variable of the job keeps its own start.
  // CHECK-NEXT: %good_steps = job.variable "both/good_steps"
  // CHECK-NEXT: %s = job.variable "both/loss_scale" init <constant, value = 16.0> : tensor<f32>
  %s = job.variable "both/loss_scale" init <constant, value = 16.0> : tensor<f32>
  %two = job.input "two" : tensor<f64>
  %over = job.input "over" : tensor<i1>
  %w = job.variable "w" init <ones> : tensor<4xf64>
  %loss = op.reduce_sum %w axes [0] : tensor<4xf64> -> tensor<f64>
  // CHECK: [[WIDE:%.*]] = op.cast %s to f64
  // CHECK-NEXT: [[SEED:%.*]] = op.mul %two, [[WIDE]]
  // CHECK-NEXT: %g = job.gradients of %loss by %w scale [[SEED]]
  %g = job.gradients of %loss by %w scale %two : tensor<f64>, tensor<4xf64>
  // CHECK: [[SKIP:%.*]] = op.logical_not
  // CHECK-NEXT: [[WIDE:%.*]] = op.cast %s to f64
  // CHECK-NEXT: [[SCALE:%.*]] = op.mul %two, [[WIDE]]
  // CHECK-NEXT: [[ALL:%.*]] = op.logical_or %over, [[SKIP]]
  // CHECK-NEXT: job.update %w by %g with <sgd, rate = 0.1> scale [[SCALE]] skip [[ALL]]
  job.update %w by %g with <sgd, rate = 0.1> scale %two skip %over : tensor<4xf64>
  // CHECK: job.assign %s_next to %s
}

// A gradient is looked at where its variable is.
// CHECK-LABEL: job.job @placed
job.job @placed placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> {placement = #job.placement<cpu, [0:1]>} : tensor<4xf32>
  %loss = op.reduce_sum %w axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  // CHECK: op.all_finite %g {pass = "update", placement = #job.placement<cpu, [0:1]>}
  // CHECK-NEXT: op.logical_not {{%.*}} {pass = "update"}
  job.update %w by %g with <sgd, rate = 0.1> : tensor<4xf32>
}

// On several devices each counts the finite elements of its part, whatever this is.
// CHECK-LABEL: job.job @several
job.job @several placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <ones> : tensor<4x3xf32>
  %loss = op.reduce_sum %w axes [0, 1] : tensor<4x3xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4x3xf32>
  // CHECK:      [[SIZE:%.*]] = op.abs %g
  // CHECK:      [[FINITE:%.*]] = op.greater {{%.*}}, [[SIZE]]
  // CHECK-NEXT: [[ONES:%.*]] = op.cast [[FINITE]] to i64
  // CHECK-NEXT: [[COUNT:%.*]] = op.reduce_sum [[ONES]] axes [0, 1]
  // CHECK-NEXT: [[ALL:%.*]] = op.constant {pass = "update"} dense<12> : tensor<i64>
  // CHECK-NEXT: op.equal [[COUNT]], [[ALL]]
  job.update %w by %g with <sgd, rate = 0.1> : tensor<4x3xf32>
}

// Nothing has to be scaled where no variable is updated.
// CHECK-LABEL: job.job @none
job.job @none placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %loss = op.reduce_sum %w axes [0] : tensor<4xf32> -> tensor<f32>
  // CHECK: job.gradients of %loss by %w : tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  // CHECK-NEXT: job.output "g", %g
  job.output "g", %g : tensor<4xf32>
}
