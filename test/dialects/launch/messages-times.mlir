// RUN: penstock-opt %s | penstock-opt | filecheck %s

// The actors of a program act as often as its messages come.

// CHECK-LABEL: launch.program @often rank 1
launch.program @often rank 1 {
  launch.chunk @c on <1, network> size 256
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.register @y in @c at 128 slots 2 : memref<4xf32>
  // CHECK: launch.receive @x from 5 tag 3 times 4
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    launch.receive @x from 5 tag 3 times 4
  }
  // CHECK: launch.collective "all_reduce" by "ring" over [1, 5] tag 4 times 4 [@x] into [@y]
  launch.actor @sum on <1, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.collective "all_reduce" by "ring" over [1, 5] tag 4 times 4 [@x] into [@y]
  }
  // CHECK: launch.send @y to 5 tag 5 times 4
  launch.actor @out on <1, cpu:0> stream 0 reads [@y] writes [] {
    launch.send @y to 5 tag 5 times 4
  }
}
