// RUN: penstock-opt %s -p verify-program --verify-diagnostics

// Two registers overlap by half, and nothing keeps their actors apart.

!x = memref<16xf32>

// EXAMPLE-BEFORE
launch.program @example rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.register @x in @c at 0 slots 1 : !x
  // expected-error@+1 {{verify-program: registers @x and @y share 32 bytes, but @f may use @x after @g has begun to write @y}}
  launch.register @y in @c at 32 slots 1 : !x
  launch.actor @f on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @g on <0, cpu:0> stream 0 reads [] writes [@y] { launch.feed "y" to @y }
}
// EXAMPLE-END
