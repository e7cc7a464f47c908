// RUN: penstock-opt %s --verify-diagnostics --split-input-file

launch.kernel @k target "cpu" (%x: memref<9x4xf32>, %i: memref<3xf32>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.gather: indices should be signed integers, got f32}}
  kernel.gather axis 0 ins(%x, %i : memref<9x4xf32>, memref<3xf32>) outs(%y : memref<3x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x4xf32>, %i: memref<3xui8>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.gather: indices should be signed integers, got ui8}}
  kernel.gather axis 0 ins(%x, %i : memref<9x4xf32>, memref<3xui8>) outs(%y : memref<3x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x4xf32>, %i: memref<3xi64>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.gather: memref<9x4xf32> has no axis 2}}
  kernel.gather axis 2 ins(%x, %i : memref<9x4xf32>, memref<3xi64>) outs(%y : memref<3x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x4xf32>, %i: memref<3xi64>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.gather: memref<9x4xf32> has no axis -1}}
  kernel.gather axis -1 ins(%x, %i : memref<9x4xf32>, memref<3xi64>) outs(%y : memref<3x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x4xf32>, %i: memref<3xi64>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.gather: slices of 9x4 along axis 1 by indices 3 are 9x3, got 3x4}}
  kernel.gather axis 1 ins(%x, %i : memref<9x4xf32>, memref<3xi64>) outs(%y : memref<3x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x4xf32>, %i: memref<3xi64>, %y: memref<3xf32>) {
  // expected-error@+1 {{kernel.gather: slices of 9x4 along axis 0 by indices 3 are 3x4, got 3}}
  kernel.gather axis 0 ins(%x, %i : memref<9x4xf32>, memref<3xi64>) outs(%y : memref<3xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x4xf32>, %i: memref<3xi64>, %y: memref<3x4xf64>) {
  // expected-error@+1 {{kernel.gather: elements of f32 are gathered as they are, got a result of f64}}
  kernel.gather axis 0 ins(%x, %i : memref<9x4xf32>, memref<3xi64>) outs(%y : memref<3x4xf64>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<8x4xf32>, %i: memref<3xi64>, %y: memref<3x4xf32>) {
  %p = kernel.padded %x low [0, 0] high [1, 0] : memref<8x4xf32> to memref<9x4xf32>
  // expected-error@+1 {{kernel.gather: no operand is padded, got memref<9x4xf32>}}
  kernel.gather axis 0 ins(%p, %i : memref<9x4xf32>, memref<3xi64>) outs(%y : memref<3x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>, %i: memref<3xi64>, %y: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.gather: the data must not lie where the result does, which is written before all of it is read}}
  kernel.gather axis 0 ins(%x, %i : memref<3x4xf32>, memref<3xi64>) outs(%x : memref<3x4xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9xi64>, %i: memref<3xi64>, %y: memref<3xi64>) {
  // expected-error@+1 {{kernel.gather: operand 0 must not lie where result 0 does, which is written before all of it is read}}
  kernel.gather axis 0 ins(%x, %i : memref<9xi64>, memref<3xi64>) outs(%i : memref<3xi64>)
}
