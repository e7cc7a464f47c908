// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s -t numba | filecheck %s --check-prefix=TEXT

// A kernel with a source of its own is compiled from that, for any target; its body says
// what it computes.
// CHECK-LABEL: launch.kernel @given
// CHECK-SAME:  attributes {source = "def kernel(args, part, parts):\0A    return 0\0A"}
// TEXT-LABEL:  # kernel given
// TEXT-NEXT:   def kernel(args, part, parts):
// TEXT-NEXT:       return 0
// TEXT-EMPTY:
launch.kernel @given target "abacus" (%o: memref<4xf32>) attributes {source = "def kernel(args, part, parts):\n    return 0\n"} {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<4xf32>)
}
