// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file | filecheck %s

// Jobs that exclude each other share bytes. So do the registers of one interface, whether
// their jobs exclude each other or not. What another job writes there has all its bytes.

!t = memref<16xf32>

// CHECK-LABEL: launch.program @exclusive
launch.program @exclusive rank 0 exclusive [["a", "b"]] {
  launch.chunk @c on <0, host> size 192
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @y in @c at 0 slots 1 : !t
  launch.register @i in @c at 64 slots 1 interface "i" : !t
  launch.register @j in @c at 64 slots 1 interface "i" : !t
  launch.register @v in @c at 80 slots 1 : memref<4xf32>
  launch.register @z in @c at 128 slots 1 : !t
  launch.control @done slots 1
  launch.actor @ax job "a" on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @ai job "a" on <0, cpu:0> stream 0 reads [@x] writes [@i] { launch.copy @x to @i }
  launch.actor @by job "b" on <0, cpu:0> stream 0 reads [] writes [@y] { launch.feed "x" to @y }
  launch.actor @cj job "c" on <0, cpu:0> stream 0 reads [] writes [@j] { }
  launch.actor @cv job "c" on <0, cpu:0> stream 0 reads [@j] writes [@v] views [@j at 16 as @v] { }
  launch.actor @cz job "c" on <0, cpu:0> stream 0 reads [@v, @j] writes [@z, @done] { launch.copy @j to @z }
  launch.actor @cy job "c" on <0, cpu:0> stream 0 reads [@z] writes [] { launch.fetch "z" from @z }
  launch.actor @free job "c" on <0, cpu:0> stream 0 reads [@j, @done] writes [] { launch.release @j }
}

// -----

// All registers that share bytes with those of a job that may run at the same time are named.

!t = memref<16xf32>

launch.program @parallel rank 0 exclusive [["a", "b"]] {
  launch.chunk @c on <0, host> size 128
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @y in @c at 0 slots 1 : !t
  // expected-error@+1 {{verify-program: registers @x and @z share bytes, but jobs 'a' and 'c' may run at the same time}}
  launch.register @z in @c at 32 slots 1 : memref<8xf32>
  launch.register @apart in @c at 64 slots 1 : !t
  launch.actor @ax job "a" on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @by job "b" on <0, cpu:0> stream 0 reads [] writes [@y] { launch.feed "x" to @y }
  launch.actor @cz job "c" on <0, cpu:0> stream 0 reads [] writes [@z] { launch.feed "z" to @z }
  launch.actor @cw job "c" on <0, cpu:0> stream 0 reads [] writes [@apart] { launch.feed "w" to @apart }
}

// -----

// Within a job the order of actors decides, whatever other jobs do with the bytes.

!t = memref<16xf32>

launch.program @within rank 0 exclusive [["a", "b"]] {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @y in @c at 0 slots 1 : !t
  // expected-error@+1 {{verify-program: registers @x and @z share 64 bytes, but @ax may use @x after @az has begun to write @z}}
  launch.register @z in @c at 0 slots 1 : !t
  launch.actor @ax job "a" on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @by job "b" on <0, cpu:0> stream 0 reads [] writes [@y] { launch.feed "x" to @y }
  launch.actor @az job "a" on <0, cpu:0> stream 0 reads [] writes [@z] { launch.feed "z" to @z }
}

// -----

// An interface lasts from run to run, so that nothing is written over it, not even by a job
// that excludes its own, or in turn; and it lies at one place.

!t = memref<16xf32>

launch.program @lasting rank 0 exclusive [["a", "b"]] {
  launch.chunk @c on <0, host> size 128
  launch.register @i in @c at 0 slots 1 interface "i" : !t
  // expected-error@+1 {{verify-program: registers @i and @x share bytes, but @i lasts from run to run}}
  launch.register @x in @c at 0 slots 1 : !t
  // expected-error@+1 {{verify-program: registers @i and @y share bytes, but @i lasts from run to run}}
  launch.register @y in @c at 60 slots 1 : memref<1xf32>
  // expected-error@+1 {{verify-program: registers @i and @k are interface 'i', but lie apart}}
  launch.register @k in @c at 64 slots 1 interface "i" : !t
  launch.control @turn slots 1 initial 1
  launch.actor @ai job "a" on <0, cpu:0> stream 0 reads [@turn] writes [@i] { launch.feed "i" to @i }
  launch.actor @ax job "a" on <0, cpu:0> stream 0 reads [@i] writes [@x] { launch.feed "x" to @x }
  launch.actor @ay job "a" on <0, cpu:0> stream 0 reads [@x] writes [@turn] { launch.fetch "y" from @x }
  launch.actor @by job "b" on <0, cpu:0> stream 0 reads [] writes [@y] { launch.feed "y" to @y }
  launch.actor @ck job "c" on <0, cpu:0> stream 0 reads [] writes [@k] { }
}

// -----

// An interface that no job writes has no bytes.

!t = memref<16xf32>

launch.program @nobody rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @i in @c at 0 slots 1 interface "i" : !t
  launch.register @j in @c at 0 slots 1 interface "i" : !t
  // expected-error@+1 {{verify-program: @ai has no step that writes @i, and 64 of its bytes are views of nothing}}
  launch.actor @ai job "a" on <0, cpu:0> stream 0 reads [] writes [@i] { }
  // expected-error@+1 {{verify-program: @bj has no step that writes @j, and 64 of its bytes are views of nothing}}
  launch.actor @bj job "b" on <0, cpu:0> stream 0 reads [] writes [@j] { }
}

// -----

// Another job may write what was released, so nobody uses it after that, under any name.
// What a job writes itself it does not release.

!t = memref<16xf32>

launch.program @early rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.register @i in @c at 0 slots 1 interface "i" : !t
  launch.register @j in @c at 0 slots 1 interface "i" : !t
  launch.register @v in @c at 0 slots 1 : !t
  launch.register @z in @c at 64 slots 1 : !t
  launch.actor @ai job "a" on <0, cpu:0> stream 0 reads [] writes [@i] { launch.feed "i" to @i }
  // expected-error@+1 {{verify-program: @own releases @i, which no other job writes}}
  launch.actor @own job "a" on <0, cpu:0> stream 0 reads [@i] writes [] { launch.release @i }
  launch.actor @bj job "b" on <0, cpu:0> stream 0 reads [] writes [@j] { }
  launch.actor @bv job "b" on <0, cpu:0> stream 0 reads [@j] writes [@v] views [@j as @v] { }
  launch.actor @bz job "b" on <0, cpu:0> stream 0 reads [@v, @j] writes [@z] { launch.copy @v to @z }
  launch.actor @by job "b" on <0, cpu:0> stream 0 reads [@z] writes [] { launch.fetch "z" from @z }
  // expected-error@+1 {{verify-program: @bz may use @j after @free has released it}}
  launch.actor @free job "b" on <0, cpu:0> stream 0 reads [@j] writes [] { launch.release @j }
}

// -----

// A release in each of two acts: the first one comes before the second piece is read.

!t = memref<16xf32>

launch.program @pieces rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.register @i in @c at 0 slots 1 interface "i" : !t
  launch.register @j in @c at 0 slots 1 interface "i" : !t
  launch.register @z in @c at 64 slots 1 : !t
  launch.register @w in @c at 128 slots 1 : memref<32xf32>
  launch.actor @ai job "a" on <0, cpu:0> stream 0 reads [] writes [@i] { launch.feed "x" to @i }
  launch.actor @bj job "b" on <0, cpu:0> stream 0 reads [] writes [@j] { }
  // expected-error@+1 {{verify-program: @bz may use @j after @bz has released it}}
  launch.actor @bz job "b" on <0, cpu:0> stream 0 reads [@j] writes [@z] {
    launch.copy @j to @z
    launch.release @j
  }
  launch.actor @bw job "b" on <0, cpu:0> stream 0 reads [@z] writes [@w] every [@w = 2] { launch.copy @z to @w }
  launch.actor @by job "b" on <0, cpu:0> stream 0 reads [@w] writes [] { launch.fetch "y" from @w }
}

// -----

// A register lies over those of its own job alone, which say how many pieces it has.

!t = memref<16xf32>

launch.program @foreign rank 0 exclusive [["a", "b"]] {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : !t
  // expected-error@+1 {{verify-program: @y lies over @x, which its job does not write}}
  launch.register @y in @c at 0 slots 1 over @x : !t
  launch.actor @ax job "a" on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.register @w in @c at 0 slots 1 : !t
  launch.actor @bw job "b" on <0, cpu:0> stream 0 reads [] writes [@w] { launch.feed "w" to @w }
  launch.actor @by job "b" on <0, cpu:0> stream 0 reads [@w] writes [@y] views [@w as @y] {}
}
