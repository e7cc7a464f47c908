// RUN: penstock-opt %s --verify-diagnostics --split-input-file

launch.kernel @k target "cpu" (%i: memref<3xf32>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: indices should be signed integers, got f32}}
  kernel.scatter axis 0 ins(%i, %u : memref<3xf32>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: memref<9x4xf32> has no axis 2}}
  kernel.scatter axis 2 ins(%i, %u : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: slices of 9x4 along axis 1 by indices 3 are 9x3, got 3x4}}
  kernel.scatter axis 1 ins(%i, %u : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<2x4xf32>, %y: memref<9x4xf32>) {
  %p = kernel.padded %u low [0, 0] high [1, 0] : memref<2x4xf32> to memref<3x4xf32>
  // expected-error@+1 {{kernel.scatter: no operand is padded, got memref<3x4xf32>}}
  kernel.scatter axis 0 ins(%i, %p : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<9xi64>, %u: memref<9x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: indices and updates must not lie in the result}}
  kernel.scatter axis 0 ins(%i, %y : memref<9xi64>, memref<9x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf64>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: the region takes f64, f32, an update and an element of the result, got f32, f32}}
  kernel.scatter axis 0 ins(%i, %u : memref<3xi64>, memref<3x4xf64>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: the region takes f32, f32, an update and an element of the result, got f32}}
  kernel.scatter axis 0 ins(%i, %u : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32):
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: the region should yield one element of f32}}
  kernel.scatter axis 0 ins(%i, %u : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    kernel.yield
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: the region should yield one element of f32}}
  kernel.scatter axis 0 ins(%i, %u : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    linalg.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: the region computes with two elements alone, got kernel.index}}
  kernel.scatter axis 0 ins(%i, %u : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    %n = kernel.index 0 : index
    kernel.yield %new : f32
  }
}

// -----

launch.kernel @k target "cpu" (%i: memref<3xi64>, %u: memref<3x4xf32>, %y: memref<9x4xf32>) {
  // expected-error@+1 {{kernel.scatter: the region computes with two elements alone, got cf.assert}}
  kernel.scatter axis 0 ins(%i, %u : memref<3xi64>, memref<3x4xf32>) outs(%y : memref<9x4xf32>) {
  ^bb0(%new: f32, %old: f32):
    %t = arith.constant true
    cf.assert %t, "odd"
    kernel.yield %new : f32
  }
}
