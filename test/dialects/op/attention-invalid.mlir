// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @types placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf64>
  // expected-error@+1 {{op.attention: operands have different element types f32 and f64}}
  %y = op.attention %q, %k, %v : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf64> -> tensor<3x8xf32>
}

// -----

job.job @integers placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xi32>
  %k = job.input "k" : tensor<5x4xi32>
  %v = job.input "v" : tensor<5x8xi32>
  // expected-error@+1 {{op.attention: attention is for floats, got i32}}
  %y = op.attention %q, %k, %v : tensor<3x4xi32>, tensor<5x4xi32>, tensor<5x8xi32> -> tensor<3x8xi32>
}

// -----

job.job @terms placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x6xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: queries of 4 terms do not fit keys of 6}}
  %y = op.attention %q, %k, %v : tensor<3x4xf32>, tensor<5x6xf32>, tensor<5x8xf32> -> tensor<3x8xf32>
}

// -----

job.job @values placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<6x8xf32>
  // expected-error@+1 {{op.attention: 5 keys do not fit 6 values}}
  %y = op.attention %q, %k, %v : tensor<3x4xf32>, tensor<5x4xf32>, tensor<6x8xf32> -> tensor<3x8xf32>
}

// -----

job.job @no_keys placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<0x4xf32>
  %v = job.input "v" : tensor<0x8xf32>
  // expected-error@+1 {{op.attention: there should be a key at least}}
  %y = op.attention %q, %k, %v : tensor<3x4xf32>, tensor<0x4xf32>, tensor<0x8xf32> -> tensor<3x8xf32>
}

// -----

job.job @vector placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: k should have 2 dimensions at least}}
  %y = op.attention %q, %k, %v : tensor<3x4xf32>, tensor<4xf32>, tensor<5x8xf32> -> tensor<3x8xf32>
}

// -----

job.job @stacks placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<2x3x4xf32>
  %k = job.input "k" : tensor<3x5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: shapes 2, 3, scalar do not broadcast}}
  %y = op.attention %q, %k, %v : tensor<2x3x4xf32>, tensor<3x5x4xf32>, tensor<5x8xf32> -> tensor<2x3x8xf32>
}

// -----

job.job @mask placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  %m = job.input "m" : tensor<3x4xf32>
  // expected-error@+1 {{op.attention: a mask of 3x4 does not broadcast to scores of 3x5}}
  %y = op.attention %q, %k, %v mask %m : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf32> mask tensor<3x4xf32> -> tensor<3x8xf32>
}

// -----

job.job @tall_mask placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  %m = job.input "m" : tensor<2x3x5xf32>
  // expected-error@+1 {{op.attention: a mask of 2x3x5 does not broadcast to scores of 3x5}}
  %y = op.attention %q, %k, %v mask %m : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf32> mask tensor<2x3x5xf32> -> tensor<3x8xf32>
}

// -----

job.job @no_key placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: expected integer >= 0, got -1}}
  %y = op.attention %q, %k, %v causal -1 : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf32> -> tensor<3x8xf32>
}

// -----

job.job @order placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: the order of q should have each of 2 axes once, got [0, 0]}}
  %y = op.attention %q, %k, %v q_by [0, 0] : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf32> -> tensor<3x8xf32>
}

// -----

job.job @order_after placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: the order of the result should have each of 2 axes once, got [0]}}
  %y = op.attention %q, %k, %v by [0] : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf32> -> tensor<3x8xf32>
}

// -----

job.job @result placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: the result's type should be tensor<3x8xf32>, got tensor<3x9xf32>}}
  %y = op.attention %q, %k, %v : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf32> -> tensor<3x9xf32>
}

// -----

job.job @sums placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xbf16>
  %k = job.input "k" : tensor<5x4xbf16>
  %v = job.input "v" : tensor<5x8xbf16>
  // expected-error@+1 {{op.attention: the result's type should be tensor<3xf32>, got tensor<3xbf16>}}
  %y, %l = op.attention %q, %k, %v with_lse : tensor<3x4xbf16>, tensor<5x4xbf16>, tensor<5x8xbf16> -> tensor<3x8xbf16>, tensor<3xbf16>
}

// -----

job.job @no_sums placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x4xf32>
  %k = job.input "k" : tensor<5x4xf32>
  %v = job.input "v" : tensor<5x8xf32>
  // expected-error@+1 {{op.attention: expected 1 results, got 2}}
  %y, %l = op.attention %q, %k, %v : tensor<3x4xf32>, tensor<5x4xf32>, tensor<5x8xf32> -> tensor<3x8xf32>, tensor<3xf32>
}
