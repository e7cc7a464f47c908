// RUN: not penstock-opt %s -p 'job-cast-amp{type=f16}' 2>&1 | filecheck %s
// RUN: not penstock-opt %s -p 'job-cast-amp{type=f16 loss-scale=0}' 2>&1 | filecheck %s --check-prefix SCALE
// RUN: not penstock-opt %s -p 'job-cast-amp{type=f16 growth=1}' 2>&1 | filecheck %s --check-prefix GROWTH
// RUN: not penstock-opt %s -p 'job-cast-amp{type=f16 backoff=1}' 2>&1 | filecheck %s --check-prefix BACKOFF
// RUN: not penstock-opt %s -p 'job-cast-amp{type=f16 interval=0}' 2>&1 | filecheck %s --check-prefix INTERVAL

// CHECK: job-cast-amp-loss-scale-invalid.mlir:14:3: error: job-cast-amp: variable 'train/loss_scale' should be tensor<f32> for a scaled loss, got tensor<f64>
// SCALE: error: job-cast-amp: the loss scale should be above 0, up to 2^127, got 0
// GROWTH: error: job-cast-amp: the growth should be above 1, up to 2^127, got 1
// BACKOFF: error: job-cast-amp: the backoff should be between 0 and 1, got 1
// INTERVAL: error: job-cast-amp: the interval should be at least 1, got 0
job.job @train placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %s = job.variable "train/loss_scale" init <ones> : tensor<f64>
  %loss = op.reduce_sum %w axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.update %w by %g with <sgd, rate = 0.1> : tensor<4xf32>
}
