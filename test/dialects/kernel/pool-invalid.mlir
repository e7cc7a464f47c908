// RUN: penstock-opt %s --split-input-file --verify-diagnostics

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<9x6xf64>) {
  // expected-error@+1 {{kernel.pool: elements of the result are f32, got f64}}
  kernel.pool max window [1] dims [1] ins(%x : memref<9x6xf32>) outs(%y : memref<9x6xf64>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xi32>, %y: memref<8x6xi32>) {
  // expected-error@+1 {{kernel.pool: means are of floats, got i32}}
  kernel.pool mean window [2] dims [0] ins(%x : memref<9x6xi32>) outs(%y : memref<8x6xi32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x6xf32>) {
  // expected-error@+1 {{kernel.pool: zeros are counted for a mean only}}
  kernel.pool max window [2] counted dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<8x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x6xf32>) {
  // expected-error@+1 {{kernel.pool: only integers may have no sign, got f32}}
  kernel.pool max window [2] unsigned dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<8x6xf32>)
}

// -----

// Windows move along dimensions that are there, each once, in order.
launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.pool: dims are dimensions of memref<9x6xf32> in their order, got [1, 0]}}
  kernel.pool max window [2, 2] dims [1, 0] ins(%x : memref<9x6xf32>) outs(%y : memref<8x5xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.pool: dims are dimensions of memref<9x6xf32> in their order, got [0, 2]}}
  kernel.pool max window [2, 2] dims [0, 2] ins(%x : memref<9x6xf32>) outs(%y : memref<8x5xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x6xf32>) {
  // expected-error@+1 {{kernel.pool: dims are dimensions of memref<9x6xf32> in their order, got []}}
  kernel.pool max window [2] dims [] ins(%x : memref<9x6xf32>) outs(%y : memref<8x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x6xf32>) {
  // expected-error@+1 {{kernel.pool: the window should be 1 numbers of at least 1, got [2, 2]}}
  kernel.pool max window [2, 2] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<8x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<9x6xf32>) {
  // expected-error@+1 {{kernel.pool: strides should be 1 numbers of at least 1, got [0]}}
  kernel.pool max window [2] strides [0] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<9x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<9x6xf32>) {
  // expected-error@+1 {{kernel.pool: dilations should be 2 numbers of at least 1, got [1]}}
  kernel.pool max window [2, 2] dilations [1] dims [0, 1] ins(%x : memref<9x6xf32>) outs(%y : memref<9x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<9x6xf32>) {
  // expected-error@+1 {{kernel.pool: pads should be 2 numbers of at least 0, got [-1, 0]}}
  kernel.pool max window [2] pads [-1, 0] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<9x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<10x6xf32>) {
  // expected-error@+1 {{kernel.pool: pads 0 and 2 should be less than the window's 2 taps}}
  kernel.pool max window [2] pads [0, 2] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<10x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<1x6xf32>) {
  // expected-error@+1 {{kernel.pool: a window that spans 11 does not fit into an extent of 9 with pads 0 and 0}}
  kernel.pool max window [6] dilations [2] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<1x6xf32>)
}

// -----

// The last window may end behind the pads, and starts on an element.
launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<6x5xf32>) {
  // expected-error@+1 {{kernel.pool: there are 4x5 or 5x5 windows, got a result of 6x5}}
  kernel.pool max window [2, 2] strides [2, 1] dims [0, 1] ins(%x : memref<9x6xf32>) outs(%y : memref<6x5xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x5xf32>) {
  // expected-error@+1 {{kernel.pool: there are 8x6 windows, got a result of 8x5}}
  kernel.pool max window [2] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<8x5xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8xf32>) {
  // expected-error@+1 {{kernel.pool: there are 8x6 windows, got a result of 8}}
  kernel.pool max window [2] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<8xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<8x6xf32>, %y: memref<8x6xf32>) {
  %p = kernel.padded %x low [1, 0] high [0, 0] : memref<8x6xf32> to memref<9x6xf32>
  // expected-error@+1 {{kernel.pool: no operand is padded, got memref<9x6xf32>}}
  kernel.pool max window [2] dims [0] ins(%p : memref<9x6xf32>) outs(%y : memref<8x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>) {
  // expected-error@+1 {{kernel.pool: the input must not lie where the result does, which is written before all of it is read}}
  kernel.pool max window [3] pads [1, 1] dims [0] ins(%x : memref<9x6xf32>) outs(%x : memref<9x6xf32>)
}

// -----

launch.kernel @k target "cpu" (%x: memref<9x6xf32>, %y: memref<8x6xf32>) {
  // expected-error@+1 {{kernel.pool: #launch.transform<lanes 16> is no schedule of kernel.pool}}
  kernel.pool max window [2] dims [0] ins(%x : memref<9x6xf32>) outs(%y : memref<8x6xf32>) attributes {schedule = #launch.transform<lanes 16>}
}
