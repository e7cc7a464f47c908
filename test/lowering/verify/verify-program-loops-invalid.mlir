// RUN: penstock-opt %s -p verify-program --split-input-file --verify-diagnostics

// A value that nobody has written.
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
      launch.subview @p of @b at 8 : memref<2xf32>
      launch.subview @yi of @y at 0 step 8 : memref<2xf32>
      // expected-error@+1 {{verify-program: @a reads @p, but 8 of its bytes are not written}}
      launch.call @k [@p, @yi]
      launch.copy @yi to @p
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A value that another one has been written over.
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
      launch.subview @q of @b at 12 : memref<2xf32>
      launch.call @k [@xi, @p]
      launch.call @k [@xi, @q]
      // expected-error@+1 {{verify-program: @a reads @p, but 4 of its bytes are @q by then}}
      launch.call @k [@p, @yi]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A carried value that is gone when the next iteration reads it.
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
      launch.subview @p of @b at 0 : memref<2xf32>
      // expected-error@+1 {{verify-program: @a hands on @after, but 8 of its bytes are @p by then}}
      launch.carry @before to @after in [@h at 0, @b at 0] : memref<2xf32>
      // expected-error@+1 {{verify-program: @a reads @before, but 8 of its bytes are @p by then}}
      launch.call @k [@before, @after]
      launch.call @k [@xi, @p]
      launch.call @k [@p, @yi]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// An initial value at the place of the second iteration.
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
    launch.copy @x to @y
    launch.loop 3 {
      launch.subview @yi of @y at 0 step 8 : memref<2xf32>
      launch.carry @before to @after in [@h at 0, @b at 0] : memref<2xf32>
      // expected-error@+1 {{verify-program: @a reads @before, but 8 of its bytes are not written}}
      launch.call @k [@before, @after]
      launch.copy @after to @yi
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A value of one branch alone.
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
    launch.copy @x to @y
    launch.subview @p of @b at 8 : memref<2xf32>
    launch.subview @yi of @y at 0 : memref<2xf32>
    launch.if @t {
      launch.call @k [@h, @p]
    } else {
    }
    // expected-error@+1 {{verify-program: @a reads @p, but 8 of its bytes are not written}}
    launch.call @k [@p, @yi]
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// Bytes that move over those of a value that each iteration uses.
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
    launch.copy @x to @y
    launch.loop 4 {
      launch.subview @p of @b at 16 : memref<2xf32>
      // expected-error@+1 {{verify-program: @a writes @s over bytes of @p in some iteration}}
      launch.subview @s of @b at 0 step 8 : memref<2xf32>
      launch.call @k [@h, @p]
      launch.call @k [@p, @s]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// What an actor writes in a loop is its own.
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
  // expected-error@+1 {{verify-program: @a writes @x, which it only reads}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y, @b] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.copy @x to @y
    launch.loop 4 {
      launch.subview @s of @x at 0 step 8 : memref<2xf32>
      launch.subview @p of @b at 0 : memref<2xf32>
      launch.call @k [@h, @p]
      launch.call @k [@p, @s]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A result that only one branch writes, and of which iterations leave out a row.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @t in @c at 256 slots 1 : memref<i1>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  // expected-error@+2 {{verify-program: @a hands on @h, but 8 of its bytes are not written}}
  // expected-error@+1 {{verify-program: @a hands on @y, but 8 of its bytes are not written}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y] {
    launch.loop 3 {
      launch.subview @xi of @x at 8 step 8 : memref<2xf32>
      launch.subview @yi of @y at 0 step 8 : memref<2xf32>
      launch.call @k [@xi, @yi]
    }
    launch.if @t {
      launch.subview @x0 of @x at 0 : memref<2xf32>
      launch.call @k [@x0, @h]
    } else {
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A value that is read after that of this iteration has been written over it.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @t in @c at 256 slots 1 : memref<i1>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.loop 4 {
      launch.subview @xi of @x at 0 step 8 : memref<2xf32>
      launch.subview @yi of @y at 0 step 8 : memref<2xf32>
      launch.carry @before to @after in [@h at 0] : memref<2xf32>
      launch.call @k [@xi, @after]
      // expected-error@+1 {{verify-program: @a reads @before, but 8 of its bytes are @after by then}}
      launch.call @k [@before, @yi]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// Two carried values that take turns in one place.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @t in @c at 256 slots 1 : memref<i1>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.loop 4 {
      launch.subview @xi of @x at 0 step 8 : memref<2xf32>
      launch.subview @yi of @y at 0 step 8 : memref<2xf32>
      // expected-error@+1 {{verify-program: @a hands on @after, but 8 of its bytes are @next by then}}
      launch.carry @before to @after in [@h at 0] : memref<2xf32>
      launch.carry @last to @next in [@h at 0] : memref<2xf32>
      // expected-error@+2 {{verify-program: @a reads @before, but 8 of its bytes are @last by then}}
      // expected-error@+1 {{verify-program: @a writes @after over bytes of @before in one step}}
      launch.call @k [@before, @after]
      launch.call @k [@xi, @next]
      // expected-error@+1 {{verify-program: @a reads @after, but 8 of its bytes are @next by then}}
      launch.call @k [@after, @yi]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// Rows that lie over each other, and a carried value that is not there without
// iterations.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @t in @c at 256 slots 1 : memref<i1>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  // expected-error@+1 {{verify-program: @a hands on @h, but 8 of its bytes are not written}}
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @t] writes [@h, @y] {
    launch.copy @x to @y
    launch.loop up to 4 while @t {
      launch.subview @xi of @x at 0 step 8 : memref<2xf32>
      // expected-error@+1 {{verify-program: @a writes @yi over bytes of it in other iterations}}
      launch.subview @yi of @y at 0 step 4 : memref<2xf32>
      launch.call @k [@xi, @h]
      launch.call @k [@h, @yi]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// Rows of which each iteration writes a part.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @t in @c at 256 slots 1 : memref<i1>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  // expected-error@+1 {{verify-program: @a hands on @y, but 8 of its bytes are not written}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.loop 2 {
      launch.subview @yi of @y at 0 step 16 : memref<2x2xf32>
      launch.loop 2 {
        launch.subview @yij of @yi at 0 step 4 : memref<1xf32>
        launch.subview @xj of @x at 0 step 4 : memref<1xf32>
        launch.copy @xj to @yij
      }
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A row of a result that each iteration uses for something else.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @b in @c at 192 slots 1 : memref<64xi8>
  launch.register @t in @c at 256 slots 1 : memref<i64>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x, @t] writes [@h, @y] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.loop 4 {
      // expected-error@+1 {{verify-program: @a writes @s over bytes of @p in some iteration}}
      launch.subview @s of @y at 0 step 8 : memref<2xf32>
      launch.subview @p of @y at 0 : memref<2xf32>
      launch.call @k [@h, @s]
      // expected-error@+1 {{verify-program: @a writes @p over bytes of @s in one step}}
      launch.call @k [@s, @p]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// The last of two values in the place of another one, to where that is copied at the end.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @b in @c at 192 slots 1 : memref<64xi8>
  launch.register @t in @c at 256 slots 1 : memref<i64>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x, @t] {
    launch.feed "x" to @x
    launch.feed "t" to @t
  }
  // expected-error@+1 {{verify-program: @a hands on @h, but 8 of its bytes are not written}}
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@x, @t] writes [@h, @y, @b] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.subview @q of @b at 0 : memref<2xf32>
    launch.copy @x0 to @h
    launch.copy @x0 to @q
    launch.copy @x to @y
    launch.loop up to 3 count @t {
      launch.carry @g to @h1 in [@h at 0, @b at 16] : memref<2xf32>
      // expected-error@+1 {{verify-program: @a carries @q1 and @h1 in one place}}
      launch.carry @f to @q1 in [@b at 0, @h at 0] : memref<2xf32>
      launch.call @k [@g, @h1]
      launch.call @k [@h1, @q1]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A kernel of two results that writes one of them over what it computes the other from,
// in an iteration, in a branch and beside these; and a copy over a part of itself.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @b in @c at 192 slots 1 : memref<64xi8>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.kernel @two target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>, %p: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
    "memref.copy"(%a, %p) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@h, @y, @b] {
    launch.copy @x to @y
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.subview @p of @b at 0 : memref<2xf32>
    launch.subview @q of @b at 8 : memref<2xf32>
    launch.subview @r of @b at 4 : memref<2xf32>
    launch.subview @t of @b at 16 : memref<i1>
    launch.call @k [@x0, @p]
    // expected-error@+1 {{verify-program: @a writes @r over bytes of @p in one step}}
    launch.call @two [@p, @h, @r]
    launch.call @k [@x0, @q]
    // expected-error@+1 {{verify-program: @a writes @r over bytes of @q in one step}}
    launch.copy @q to @r
    launch.loop 4 {
      launch.carry @before to @after in [@h at 0, @b at 32] : memref<2xf32>
      launch.subview @z of @b at 32 : memref<2xf32>
      // expected-error@+3 {{verify-program: @a writes @z over bytes of @before in one step}}
      // expected-error@+2 {{verify-program: @a writes @z over bytes of @after in one step}}
      // expected-error@+1 {{verify-program: @a writes @after over bytes of @z in one step}}
      launch.call @two [@before, @z, @after]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// A carried value that no iteration reads, in bytes that a loop within carries on in.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @b in @c at 192 slots 1 : memref<64xi8>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@h, @y, @b] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x to @y
    launch.copy @x0 to @h
    launch.loop 4 {
      // expected-error@+1 {{verify-program: @a hands on @after, but 8 of its bytes are not written}}
      launch.carry @before to @after in [@h at 0] : memref<2xf32>
      launch.subview @p of @b at 0 : memref<2xf32>
      launch.call @k [@x0, @after]
      launch.call @k [@after, @p]
      launch.loop 2 {
        launch.carry @old to @new in [@b at 0, @h at 0] : memref<2xf32>
        launch.call @k [@old, @new]
      }
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}

// -----

// The second place of a carried value in a row of what iterations stack.
launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 4096
  launch.register @x in @c at 0 slots 1 : memref<4x2xf32>
  launch.register @h in @c at 64 slots 1 : memref<2xf32>
  launch.register @y in @c at 128 slots 1 : memref<4x2xf32>
  launch.register @b in @c at 192 slots 1 : memref<64xi8>
  launch.kernel @k target "cpu" (%a: memref<2xf32>, %o: memref<2xf32>) {
    "memref.copy"(%a, %o) : (memref<2xf32>, memref<2xf32>) -> ()
  }
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@x] writes [@h, @y] {
    launch.subview @x0 of @x at 0 : memref<2xf32>
    launch.copy @x to @y
    launch.copy @x0 to @h
    launch.loop 4 {
      launch.carry @before to @after in [@h at 0, @y at 24] : memref<2xf32>
      // expected-error@+2 {{verify-program: @a writes @s over bytes of @before in some iteration}}
      // expected-error@+1 {{verify-program: @a writes @s over bytes of @after in some iteration}}
      launch.subview @s of @y at 0 step 8 : memref<2xf32>
      launch.call @k [@before, @after]
      launch.call @k [@x0, @s]
    }
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@h, @y] writes [] {
    launch.fetch "h" from @h
    launch.fetch "y" from @y
  }
}
