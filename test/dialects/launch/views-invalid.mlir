// RUN: penstock-opt %s --verify-diagnostics --split-input-file

!t = memref<16xf32>
!h = memref<8xf32>

// What an actor writes may be a view, what it reads is none.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @x, which is no data register it writes}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@y at -32 as @x] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// Nor is anything that does not exist.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @q, which is no data register it writes}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x as @q] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// It is a view of what its writer reads.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view of @z, which is neither a variable nor a data register it reads}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@z at 32 as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// The register lies where the view says.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y at byte 0 of @x, but it lies at 32}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// So it does for a variable.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y at byte 0 of @w, but it lies at -480}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@w as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// Places in two chunks have no distance.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c1 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y at byte 32 of @x, but it lies in another chunk}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x at 32 as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// The one has all bytes of the other.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 48 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y of 32 bytes at byte 48 of @x, which has 64}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x at 48 as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// Slots are the same ones.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 2 : !t
  launch.register @z in @c0 at 0 slots 2 : !t
  launch.register @y in @c0 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y of @x, but these have 1 and 2 slots}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x at 32 as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// A variable has one slot.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 512 slots 2 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y of @w, but these have 2 and 1 slots}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@w as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// Slots follow each other at the same distance.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 2 : memref<32xf32>
  launch.register @z in @c0 at 0 slots 2 : !t
  launch.register @y in @c0 at 0 slots 2 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y of @x, but their slots start every 64 and every 128 bytes}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// A slot over another one is somewhere else in each act.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 2 : !t
  launch.register @z in @c0 at 0 slots 2 : !t
  launch.register @y in @c0 at 0 slots 2 over @z : !t
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y of @x, but only one of these lies over another register}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] views [@x as @y] {
  }
}

// -----

!t = memref<16xf32>
!h = memref<8xf32>

// Pieces last for equally many acts.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.chunk @c1 on <0, host> size 1024
  launch.variable @w in @c0 at 512 init <ones> : !t
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @z in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 32 slots 1 : !h
  launch.control @k slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x, @k] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ has a view @y of @x, but the pieces of these last for 1 and 2 acts}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] every [@x = 2] views [@x at 32 as @y] {
  }
}

// -----

!t = memref<16xf32>

// A kernel leaves unchanged only what lies where it copies it to, which a view says.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 128
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 0 slots 1 : !t
  launch.kernel @copy target "cpu" (%i: memref<16xf32>, %o: memref<16xf32>) {
    "memref.copy"(%i, %o) : (memref<16xf32>, memref<16xf32>) -> ()
  }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    // expected-error@+1 {{launch.call: @y_ leaves @x unchanged, which is no argument that it has a view of}}
    launch.call @copy [@x, @y] {unchanged = [@x]}
  }
}

// -----

!t = memref<16xf32>

// What lies over a register is made of that one's pieces.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 128
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 0 slots 2 over @x : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ writes @y over @x, which it does not read}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [] writes [@y] {
    launch.feed "y" to @y
  }
}

// -----

!t = memref<16xf32>

// Two pieces of each would lie over one slot after the other, not both over the same.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 128
  launch.register @x in @c0 at 0 slots 2 : !t
  launch.register @y in @c0 at 0 slots 2 over @x : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ writes @y over @x, 1 in each slot, but the pieces of these last for 1 and 2 acts}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] every [@x = 2] {
  }
}

// -----

!t = memref<16xf32>

// Without rates, two slots would show each piece of one in turn.
launch.program @p rank 0 {
  launch.chunk @c0 on <0, host> size 128
  launch.register @x in @c0 at 0 slots 1 : !t
  launch.register @y in @c0 at 0 slots 2 over @x : memref<8xf32>
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{launch.actor: @y_ writes @y over @x, 2 in each slot, but the pieces of these last for 1 and 1 acts}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [@y] {
  }
}
