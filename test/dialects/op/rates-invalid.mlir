// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// All pieces have as many rows.
job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<6x8xf32>
  // expected-error@+1 {{op.unpack: 6 rows make no 4 pieces of equal size}}
  %u = op.unpack %x by 4 : tensor<6x8xf32> -> tensor<2x8xf32>
}

// -----

// A scalar has no rows.
job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<f32>
  // expected-error@+1 {{op.pack: a scalar has no rows}}
  %u = op.pack %x by 4 : tensor<f32> -> tensor<4xf32>
}

// -----

// A sum is as large as its terms.
job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{op.acc: the result's type should be tensor<4xf32>, got tensor<1xf32>}}
  %u = op.acc %x every 4 : tensor<4xf32> -> tensor<1xf32>
}

// -----

// Each act of a launch is looked at, so there is a limit.
job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{expected integer <= 16384, got 1000000}}
  %s = op.acc %x every 1000000 : tensor<4xf32> -> tensor<4xf32>
}

// -----

job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{expected integer <= 16384, got 1000000000}}
  %r = op.repeat %x times 1000000000 : tensor<4xf32> -> tensor<4xf32>
}

// -----

job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{expected integer <= 16384, got 16385}}
  %r = op.pack %x by 16385 : tensor<4xf32> -> tensor<65540xf32>
}

// -----

job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<65540xf32>
  // expected-error@+1 {{expected integer <= 16384, got 16385}}
  %r = op.unpack %x by 16385 : tensor<65540xf32> -> tensor<4xf32>
}
