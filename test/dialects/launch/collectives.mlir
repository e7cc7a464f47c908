// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p verify-program | filecheck %s

// A part in a collective is all that its actor does; the ring of a reduce_scatter has a
// place aside.

// CHECK-LABEL: launch.program @sums_0 rank 0
launch.program @sums_0 rank 0 {
  launch.chunk @c on <0, network> size 192
  launch.variable @x in @c at 0 init <zeros> : memref<4xf32>
  launch.register @y in @c at 64 slots 1 : memref<2xf32>
  launch.register @aside in @c at 128 slots 1 : memref<2xf32>
  // CHECK: launch.actor @part
  // CHECK-NEXT: launch.collective "reduce_scatter" by "ring" over [1, 0] tag 5 [@x] into [@y, @aside]
  launch.actor @part on <0, cpu:0> stream 0 reads [] writes [@y, @aside] {
    launch.collective "reduce_scatter" by "ring" over [1, 0] tag 5 [@x] into [@y, @aside]
  }
}

launch.program @sums_1 rank 1 {
  launch.chunk @c on <1, network> size 192
  launch.variable @x in @c at 0 init <zeros> : memref<4xf32>
  launch.register @y in @c at 64 slots 1 : memref<2xf32>
  launch.register @aside in @c at 128 slots 1 : memref<2xf32>
  launch.actor @part on <1, cpu:0> stream 0 reads [] writes [@y, @aside] {
    launch.collective "reduce_scatter" by "ring" over [1, 0] tag 5 [@x] into [@y, @aside]
  }
}
