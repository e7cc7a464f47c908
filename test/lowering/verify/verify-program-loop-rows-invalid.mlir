// RUN: penstock-opt %s -p verify-program --verify-diagnostics

// Bytes that move with the iterations of loops, and values that these carry: one mistake
// an actor.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @t in @c at 64 slots 1 : memref<i1>
  launch.register @n in @c at 128 slots 1 : memref<i64>
  launch.register @h0 in @c at 256 slots 1 : memref<2xf32>
  launch.register @y0 in @c at 320 slots 1 : memref<4x2xf32>
  launch.register @h1 in @c at 384 slots 1 : memref<2xf32>
  launch.register @b1 in @c at 448 slots 1 : memref<64xi8>
  launch.register @h2 in @c at 512 slots 1 : memref<2xf32>
  launch.register @b2 in @c at 576 slots 1 : memref<64xi8>
  launch.register @h3 in @c at 640 slots 1 : memref<2xf32>
  launch.register @b3 in @c at 704 slots 1 : memref<64xi8>
  launch.register @h4 in @c at 768 slots 1 : memref<2xf32>
  launch.register @b4 in @c at 832 slots 1 : memref<64xi8>
  launch.register @h5 in @c at 896 slots 1 : memref<2xf32>
  launch.register @b5 in @c at 960 slots 1 : memref<64xi8>
  launch.register @h6 in @c at 1024 slots 1 : memref<2xf32>
  launch.register @b6 in @c at 1088 slots 1 : memref<64xi8>
  launch.register @h7 in @c at 1152 slots 1 : memref<2xf32>
  launch.register @b7 in @c at 1216 slots 1 : memref<64xi8>
  launch.register @h8 in @c at 1280 slots 1 : memref<2xf32>
  launch.register @b8 in @c at 1344 slots 1 : memref<64xi8>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t, @n] {
    launch.feed "x" to @x
    launch.feed "t" to @t
    launch.feed "n" to @n
  }
  // The second place of a value that a loop within carries, in a row of what iterations write.
  launch.actor @a0 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h0, @y0] {
    launch.subview @s0_x0 of @x at 0 : memref<2xf32>
    launch.copy @x to @y0
    launch.copy @s0_x0 to @h0
    launch.loop 4 {
      // expected-error@+2 {{verify-program: @a0 writes @s0_s over bytes of @s0_before in some iteration}}
      // expected-error@+1 {{verify-program: @a0 writes @s0_s over bytes of @s0_after in some iteration}}
      launch.subview @s0_s of @y0 at 0 step 8 : memref<2xf32>
      launch.call @k [@s0_x0, @s0_s]
      launch.loop 2 {
        launch.carry @s0_before to @s0_after in [@h0 at 0, @y0 at 24] : memref<2xf32>
        launch.call @k [@s0_before, @s0_after]
      }
    }
  }
  // Rows of a loop within, which the rows of the outer one reach in its last iteration.
  launch.actor @a1 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h1, @b1] {
    launch.subview @s1_x0 of @x at 0 : memref<2xf32>
    launch.loop 4 {
      // expected-error@+1 {{verify-program: @a1 writes @s1_s over bytes of @s1_r in some iteration}}
      launch.subview @s1_s of @b1 at 0 step 8 : memref<2xf32>
      launch.call @k [@s1_x0, @s1_s]
      launch.loop 4 {
        launch.subview @s1_r of @b1 at 48 step -8 : memref<2xf32>
        launch.call @k [@s1_x0, @s1_r]
      }
      launch.call @k [@s1_s, @h1]
    }
  }
  // Rows of a branch.
  launch.actor @a2 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h2, @b2] {
    launch.subview @s2_x0 of @x at 0 : memref<2xf32>
    launch.subview @s2_z of @b2 at 24 : memref<2xf32>
    launch.copy @s2_x0 to @s2_z
    launch.copy @s2_x0 to @h2
    launch.loop 4 {
      launch.if @t {
        // expected-error@+1 {{verify-program: @a2 writes @s2_s over bytes of @s2_z in some iteration}}
        launch.subview @s2_s of @b2 at 0 step 8 : memref<2xf32>
        launch.call @k [@s2_x0, @s2_s]
      } else {
      }
      launch.call @k [@s2_z, @h2]
    }
  }
  // Rows over the number that a loop within counts by.
  launch.actor @a3 on <0, cpu:0> stream 0 can_fail reads [@x, @t, @n] writes [@h3, @b3] {
    launch.subview @s3_x0 of @x at 0 : memref<2xf32>
    launch.copy @s3_x0 to @h3
    launch.subview @s3_m of @b3 at 24 : memref<i64>
    launch.copy @n to @s3_m
    launch.loop 4 {
      // expected-error@+1 {{verify-program: @a3 writes @s3_s over bytes of @s3_m in some iteration}}
      launch.subview @s3_s of @b3 at 0 step 8 : memref<2xf32>
      launch.call @k [@s3_x0, @s3_s]
      launch.loop up to 3 count @s3_m {
        launch.call @k [@s3_x0, @h3]
      }
    }
  }
  // Rows that are some way apart, the last over a value that is read after the loop.
  launch.actor @a4 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h4, @b4] {
    launch.subview @s4_x0 of @x at 0 : memref<2xf32>
    launch.subview @s4_z of @b4 at 48 : memref<2xf32>
    launch.copy @s4_x0 to @s4_z
    launch.loop 4 {
      launch.subview @s4_s of @b4 at 0 step 16 : memref<2xf32>
      launch.call @k [@s4_x0, @s4_s]
    }
    // expected-error@+1 {{verify-program: @a4 reads @s4_z, but 8 of its bytes are @s4_s by then}}
    launch.call @k [@s4_z, @h4]
  }
  // The last of the rows that iterations read is another value.
  launch.actor @a5 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h5, @b5] {
    launch.subview @s5_x0 of @x at 0 : memref<2xf32>
    launch.subview @s5_v of @b5 at 0 : memref<4x2xf32>
    launch.subview @s5_z of @b5 at 24 : memref<2xf32>
    launch.copy @x to @s5_v
    launch.copy @s5_x0 to @s5_z
    launch.loop 4 {
      launch.subview @s5_s of @s5_v at 0 step 8 : memref<2xf32>
      // expected-error@+1 {{verify-program: @a5 reads @s5_s, but bytes of it are @s5_z in some iteration}}
      launch.call @k [@s5_s, @h5]
    }
  }
  // The first of the rows that iterations read from the last one on, in a loop within another
  // one, is not written.
  launch.actor @a6 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h6, @b6] {
    launch.subview @s6_x0 of @x at 0 : memref<2xf32>
    launch.subview @s6_v of @b6 at 0 : memref<4x2xf32>
    launch.loop 3 {
      launch.subview @s6_v1 of @s6_v at 8 step 8 : memref<2xf32>
      launch.call @k [@s6_x0, @s6_v1]
    }
    launch.loop 2 {
      launch.loop 4 backward {
        launch.subview @s6_s of @s6_v at 0 step 8 : memref<2xf32>
        // expected-error@+1 {{verify-program: @a6 reads @s6_s, but bytes of it are not written in some iteration}}
        launch.call @k [@s6_s, @h6]
      }
    }
  }
  // An initial value that is a part of a workspace only in part.
  launch.actor @a7 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h7, @b7] {
    launch.subview @s7_x0 of @x at 0 : memref<2xf32>
    launch.subview @s7_v of @b7 at 0 : memref<4x2xf32>
    launch.copy @x to @s7_v
    launch.loop 3 {
      launch.carry @s7_before to @s7_after in [@h7 at 0, @b7 at 8] : memref<2xf32>
      // expected-error@+1 {{verify-program: @a7 reads @s7_before, but 8 of its bytes are @s7_v by then}}
      launch.call @k [@s7_before, @s7_after]
    }
  }
  // A carried value in one place, read before this iteration has written its own.
  launch.actor @a8 on <0, cpu:0> stream 0 reads [@x, @t, @n] writes [@h8, @b8] {
    launch.subview @s8_x0 of @x at 0 : memref<2xf32>
    launch.copy @s8_x0 to @h8
    launch.loop 3 {
      launch.carry @s8_before to @s8_after in [@h8 at 0] : memref<2xf32>
      launch.subview @s8_q of @b8 at 0 : memref<2xf32>
      // expected-error@+1 {{verify-program: @a8 reads @s8_after, but 8 of its bytes are @s8_before by then}}
      launch.call @k [@s8_after, @s8_q]
      launch.call @k [@s8_q, @s8_after]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h0, @y0, @h1, @h2, @h3, @h4, @h5, @h6, @h7, @h8] writes [] {
    launch.fetch "h0" from @h0
    launch.fetch "y0" from @y0
    launch.fetch "h1" from @h1
    launch.fetch "h2" from @h2
    launch.fetch "h3" from @h3
    launch.fetch "h4" from @h4
    launch.fetch "h5" from @h5
    launch.fetch "h6" from @h6
    launch.fetch "h7" from @h7
    launch.fetch "h8" from @h8
  }
}
