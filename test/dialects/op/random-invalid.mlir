// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @seed placement <cpu, [0:0]> {
  %seed = job.input "seed" : tensor<i32>
  %step = job.input "step" : tensor<i64>
  // expected-error@+1 {{op.random_bits: the seed should be a tensor<i64>, got tensor<i32>}}
  %a = op.random_bits %seed, %step to [4] : tensor<i32>, tensor<i64> -> tensor<4xui32>
}

// -----

job.job @step placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %seed = job.input "seed" : tensor<i64>
  %step = job.input "step" : tensor<1xi64>
  // expected-error@+1 {{op.dropout: the step should be a tensor<i64>, got tensor<1xi64>}}
  %a = op.dropout %x, %seed, %step ratio 0.5 : tensor<4xf32>, tensor<i64>, tensor<1xi64> -> tensor<4xf32>
}

// -----

job.job @number placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.random_bits: the number should be from 0 to 4294967295, got -1}}
  %a = op.random_bits %n, %n number -1 to [4] : tensor<i64>, tensor<i64> -> tensor<4xui32>
}

// -----

job.job @extent placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.random_bits: expected extents of no less than 0, got [4, -1]}}
  %a = op.random_bits %n, %n to [4, -1] : tensor<i64>, tensor<i64> -> tensor<4x1xui32>
}

// -----

job.job @outside placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.random_bits: a part of 2x7 from [1, 6] on does not lie in 4x12}}
  %a = op.random_bits %n, %n to [2, 7] part [1, 6] of [4, 12] : tensor<i64>, tensor<i64> -> tensor<2x7xui32>
}

// -----

job.job @half_a_part placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.random_bits: the part and the shape of the whole go together}}
  %a = "op.random_bits"(%n, %n) <{shape = array<i64: 4>, starts = array<i64: 0>}> : (tensor<i64>, tensor<i64>) -> tensor<4xui32>
}

// -----

job.job @large placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.random_bits: there are bits for 4294967296 blocks of 4 elements, got 4294967297}}
  %a = op.random_bits %n, %n to [4294967297, 1] : tensor<i64>, tensor<i64> -> tensor<4294967297x1xui32>
}

// -----

job.job @type placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.random_bits: the result's type should be tensor<4xui32>, got tensor<4xi32>}}
  %a = op.random_bits %n, %n to [4] : tensor<i64>, tensor<i64> -> tensor<4xi32>
}

// -----

job.job @ratio placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.dropout: the ratio should be at least 0 and less than 1, got 1.0}}
  %a = op.dropout %x, %n, %n ratio 1 : tensor<4xf32>, tensor<i64>, tensor<i64> -> tensor<4xf32>
}

// -----

job.job @integers placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xi32>
  %n = job.input "n" : tensor<i64>
  // expected-error@+1 {{op.dropout: expected floats, got i32}}
  %a = op.dropout %x, %n, %n ratio 0.5 : tensor<4xi32>, tensor<i64>, tensor<i64> -> tensor<4xi32>
}
