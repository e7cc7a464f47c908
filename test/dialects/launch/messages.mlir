// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s -p verify-program | filecheck %s

// A message is all that its actor does, and needs no kernel.

launch.program @first rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.variable @x in @c at 0 init <zeros> : memref<4xf32>
  launch.actor @out on <0, cpu:0> stream 0 reads [] writes [] { launch.send @x to 1 tag 3 }
}

// CHECK-LABEL: launch.program @relay rank 1
launch.program @relay rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  // CHECK: launch.actor @in
  // CHECK-NEXT: launch.receive @x from 0 tag 3
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    launch.receive @x from 0 tag 3
  }
  // CHECK: launch.actor @out
  // CHECK-NEXT: launch.send @x to 2 tag 3
  launch.actor @out on <1, cpu:0> stream 0 reads [@x] writes [] {
    launch.send @x to 2 tag 3
  }
}

launch.program @last rank 2 {
  launch.chunk @c on <2, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <2, cpu:0> stream 0 reads [] writes [@x] { launch.receive @x from 1 tag 3 }
}
