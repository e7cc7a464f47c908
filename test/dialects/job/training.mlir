// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --mlir-print-op-generic | penstock-opt | filecheck %s

job.job @train placement <cpu, [0:0]> {
  %g = job.input "g" : tensor<4xf32>
  %d = job.input "d" : tensor<4xf64>
  %scale = job.input "scale" : tensor<f32>
  %over = job.input "over" : tensor<i1>
  %step = job.variable "step" init <zeros> : tensor<i64>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %b = job.variable "b" init <ones> : tensor<4xf32>
  %c = job.variable "c" init <ones> : tensor<4xf64>
  %r = job.schedule <cosine, base = 1.0e-3, total = 100, warmup = 10> at %step : tensor<i64> -> tensor<f32>
  %s = job.schedule <multistep, base = 0.5, milestones = [3, 7]> at %step : tensor<i64> -> tensor<f64>
  job.update %w by %g with <adamw, beta1 = 0.8> rate %r scale %scale skip %over : tensor<4xf32>
  job.update %b by %g with <momentum, nesterov = true, clip_group = "all"> : tensor<4xf32>
  job.update %c by %d with <sgd> rate %s : tensor<4xf64>
}

// Parameters are numbers, booleans, texts and lists of integers; a rate for a variable
// of f64 is f64.
// CHECK:      %r = job.schedule <cosine, base = 0.001, total = 100, warmup = 10> at %step : tensor<i64> -> tensor<f32>
// CHECK-NEXT: %s = job.schedule <multistep, base = 0.5, milestones = [3, 7]> at %step : tensor<i64> -> tensor<f64>
// CHECK-NEXT: job.update %w by %g with <adamw, beta1 = 0.8> rate %r scale %scale skip %over : tensor<4xf32>
// CHECK-NEXT: job.update %b by %g with <momentum, nesterov = true, clip_group = "all"> : tensor<4xf32>
// CHECK-NEXT: job.update %c by %d with <sgd> rate %s : tensor<4xf64>
