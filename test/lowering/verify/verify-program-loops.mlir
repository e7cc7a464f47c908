// RUN: penstock-opt %s -p verify-program | filecheck %s

// CHECK: launch.loop 4 {
// A scan: values are written before they are read, also those that are carried.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @b in @c at 192 slots 1 : memref<64xi8>
  launch.register @t in @c at 256 slots 1 : memref<i1>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y, @b] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.loop 4 {
      launch.subview @xi of @x at 0 step 8 : memref<2xf32>
      launch.subview @yi of @y at 0 step 8 : memref<2xf32>
      launch.subview @p of @b at 8 : memref<2xf32>
      launch.subview @q of @b at 8 : memref<2xf32>
      launch.carry @before to @after in [@h at 0, @b at 0] : memref<2xf32>
      launch.call @k [@xi, @p]
      launch.call @k [@p, @yi]
      launch.call @k [@before, @q]
      launch.call @k [@q, @after]
    }
    launch.if @t {
      launch.copy @x to @y
    } else {
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}
