// RUN: penstock-opt %s --verify-diagnostics --split-input-file

launch.kernel @k target "cpu" (%x: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.padded: memref<3x4xf32> needs 2 numbers of pads on both sides, got 1 and 2}}
  %p = kernel.padded %x low [1] high [0, 0] : memref<3x4xf32> to memref<4x4xf32>
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.padded: numbers of pads must not be negative, got low [0, -1] and high [0, 2]}}
  %p = kernel.padded %x low [0, -1] high [0, 2] : memref<3x4xf32> to memref<3x5xf32>
}

// -----

launch.kernel @k target "cpu" (%x: memref<3x4xf32>) {
  // expected-error@+1 {{kernel.padded: the view is of type memref<3x7xf32>, got memref<3x7xf64>}}
  %p = kernel.padded %x low [0, 1] high [0, 2] : memref<3x4xf32> to memref<3x7xf64>
}

// -----

launch.kernel @k target "cpu" (%x: memref<4xf32>) {
  %z = arith.constant 0.0 : f32
  // expected-error@+1 {{kernel.padded: only inputs of linalg and structured ops may be padded, got one of linalg.fill}}
  %p = kernel.padded %x low [1] high [0] : memref<4xf32> to memref<5xf32>
  linalg.fill ins(%z : f32) outs(%p : memref<5xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<4xf32>, %o: memref<5xf32>) {
  // expected-error@+1 {{kernel.padded: only inputs of linalg and structured ops may be padded, got one of memref.copy}}
  %p = kernel.padded %x low [1] high [0] : memref<4xf32> to memref<5xf32>
  "memref.copy"(%p, %o) : (memref<5xf32>, memref<5xf32>) -> ()
}

// -----

launch.kernel @k target "cpu" (%x: memref<4xf32>) {
  // expected-error@+1 {{kernel.padded: the value around memref<4xf32> is a number of type f32, got 1 : i32}}
  %p = kernel.padded %x low [1] high [0] value 1 : i32 : memref<4xf32> to memref<5xf32>
}
