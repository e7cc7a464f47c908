// RUN: penstock-opt %s -t numba --verify-diagnostics

// Indices have 32 bits.
// expected-error@+1 {{kernel @large: a has more than 2146435072 elements: memref<65536x32768xf32>}}
launch.kernel @large target "cuda" (%a: memref<65536x32768xf32>, %o: memref<4xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<4xf32>)
}
