// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @types placement <cpu, [0:0]> {
  %a = op.constant dense<0.0> : tensor<f32>
  %b = op.constant dense<1.0> : tensor<f64>
  // expected-error@+1 {{op.triangle: operands have different element types f32 and f64}}
  %y = op.triangle %a, %b to [3, 5] offset 0 : tensor<f32>, tensor<f64> -> tensor<3x5xf32>
}

// -----

job.job @numbers placement <cpu, [0:0]> {
  %a = op.constant dense<0.0> : tensor<f32>
  %b = op.constant dense<1.0> : tensor<1xf32>
  // expected-error@+1 {{op.triangle: expected numbers or tensors of the shape 3x5, got 1}}
  %y = op.triangle %a, %b to [3, 5] offset 0 : tensor<f32>, tensor<1xf32> -> tensor<3x5xf32>
}

// -----

job.job @vector placement <cpu, [0:0]> {
  %a = op.constant dense<0.0> : tensor<f32>
  // expected-error@+1 {{op.triangle: expected at least 2 extents of no less than 0, got [5]}}
  %y = op.triangle %a, %a to [5] offset 0 : tensor<f32>, tensor<f32> -> tensor<5xf32>
}

// -----

job.job @negative placement <cpu, [0:0]> {
  %a = op.constant dense<0.0> : tensor<f32>
  // expected-error@+1 {{op.triangle: expected at least 2 extents of no less than 0, got [-1, 5]}}
  %y = op.triangle %a, %a to [-1, 5] offset 0 : tensor<f32>, tensor<f32> -> tensor<5x5xf32>
}

// -----

job.job @result placement <cpu, [0:0]> {
  %a = op.constant dense<0.0> : tensor<f32>
  // expected-error@+1 {{op.triangle: the result's type should be tensor<3x5xf32>, got tensor<3x4xf32>}}
  %y = op.triangle %a, %a to [3, 5] offset 0 : tensor<f32>, tensor<f32> -> tensor<3x4xf32>
}
