// RUN: penstock-opt %s --split-input-file --verify-diagnostics

job.job @integers placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xi32>
  %k = job.input "k" : tensor<2x5x4xi32>
  %v = job.input "v" : tensor<2x5x8xi32>
  %g = job.input "g" : tensor<2x3x8xi32>
  %l = job.input "l" : tensor<2x3xi32>
  %d = job.input "d" : tensor<2x3xi32>
  // expected-error@+1 {{op.attention_gradient: attention is for floats, got i32}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<2x3x4xi32>, tensor<2x5x4xi32>, tensor<2x5x8xi32>, tensor<2x3x8xi32>, tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3x4xi32>, tensor<2x5x4xi32>, tensor<2x5x8xi32>
}

// -----

job.job @types placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf64>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  // expected-error@+1 {{op.attention_gradient: operands have different element types f32 and f64}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<2x3x4xf32>, tensor<2x5x4xf64>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3x4xf32>, tensor<2x5x4xf64>, tensor<2x5x8xf32>
}

// -----

job.job @rows placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x5xf32>
  %d = job.input "d" : tensor<2x3xf32>
  // expected-error@+1 {{op.attention_gradient: lse should be tensor<2x3xf32>, got tensor<2x5xf32>}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x5xf32>, tensor<2x3xf32> -> tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
}

// -----

job.job @sums placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf64>
  // expected-error@+1 {{op.attention_gradient: delta should be tensor<2x3xf32>, got tensor<2x3xf64>}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf64> -> tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
}

// -----

job.job @grad placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x9xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  // expected-error@+1 {{op.attention_gradient: the gradient should be of 2x3x8 elements as matrices, got 2x3x9}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x9xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
}

// -----

job.job @terms placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x6xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  // expected-error@+1 {{op.attention_gradient: queries, keys and values of 3x4, 5x6 and 5x8 do not fit}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<2x3x4xf32>, tensor<2x5x6xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3x4xf32>, tensor<2x5x6xf32>, tensor<2x5x8xf32>
}

// -----

job.job @mask placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  %m = job.input "m" : tensor<3x4xf32>
  // expected-error@+1 {{op.attention_gradient: a mask of 3x4 does not broadcast to scores of 2x3x5}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d mask %m : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf32> mask tensor<3x4xf32> -> tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
}

// -----

job.job @order placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  // expected-error@+1 {{op.attention_gradient: the order of the gradient should have each of 3 axes once, got [0, 1]}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d by [0, 1] : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
}

// -----

job.job @result placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<2x5x4xf32>
  %v = job.input "v" : tensor<2x5x8xf32>
  %g = job.input "g" : tensor<2x3x8xf32>
  %l = job.input "l" : tensor<2x3xf32>
  %d = job.input "d" : tensor<2x3xf32>
  // expected-error@+1 {{op.attention_gradient: the result's type should be tensor<2x3x4xf32>, got tensor<2x3x5xf32>}}
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>, tensor<2x3x8xf32>, tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3x5xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32>
}
