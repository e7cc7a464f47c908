// RUN: penstock-opt %s --load %S/../../../examples/plugins/actor_kind.py -p launch-expand-kinds,verify-program --split-input-file --verify-diagnostics

// A step on no register is done in all acts, and has to name what all of them use.

launch.program @each rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.register @a in @c at 128 slots 1 : memref<4xf32>
  launch.register @b in @c at 256 slots 1 : memref<4xf32>
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // expected-error@+1 {{the cycle of kind 'by-turns' does not fit: act 1 of the cycle does not use @a}}
  launch.actor @deal kind "by-turns" on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] {
    launch.copy @x to @a
    launch.copy @x to @b {on = @b}
  }
  launch.actor @sink on <0, cpu:0> stream 0 reads [@a, @b] writes [] {
  }
}

// -----

// What an act hands on is written in that act.

launch.program @unwritten rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.register @a in @c at 128 slots 1 : memref<4xf32>
  launch.register @y in @c at 256 slots 1 : memref<4xf32>
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @other on <0, cpu:0> stream 0 reads [] writes [@a] {
    launch.feed "a" to @a
  }
  // expected-error@+1 {{the cycle of kind 'by-turns' does not fit: no step writes @y in act 1 of the cycle}}
  launch.actor @join kind "by-turns" on <0, cpu:0> stream 0 reads [@x, @a] writes [@y] {
    launch.copy @x to @y {on = @x}
  }
  launch.actor @sink on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}

// -----

// The order of pieces is proven: who takes three of one register before the other one waits
// for ever for who deals them by turns.

launch.program @order rank 0 {
  launch.control @x slots 1
  launch.control @a slots 1
  launch.control @b slots 1
  launch.actor @source on <0, cpu:0> stream 0 reads [] writes [@x] {
  }
  // expected-error@+1 {{a cycle of actors has no token, so none ever acts: @deal -> }}
  launch.actor @deal kind "by-turns" on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] {
  }
  launch.actor @join kind "cyclic" lists [array<i64: 0>, array<i64: 0>, array<i64: 0>, array<i64: 1>, array<i64: 1>, array<i64: 1>] on <0, cpu:0> stream 1 reads [@a, @b] writes [] {
  }
}

// -----

// Bytes of registers that nothing orders are their own.

launch.program @bytes rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.register @a in @c at 128 slots 1 : memref<4xf32>
  // expected-error@+1 {{registers @a and @b share 16 bytes, but}}
  launch.register @b in @c at 128 slots 1 : memref<4xf32>
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @deal kind "by-turns" on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] {
    launch.copy @x to @a {on = @a}
    launch.copy @x to @b {on = @b}
  }
  launch.actor @sink_a on <0, cpu:0> stream 1 reads [@a] writes [] {
    launch.fetch "a" from @a
  }
  launch.actor @sink_b on <0, cpu:0> stream 2 reads [@b] writes [] {
    launch.fetch "b" from @b
  }
}

// -----

launch.program @unknown rank 0 {
  launch.control @x slots 1
  // expected-error@+1 {{unknown kind 'by-turn', expected one of plain, case, esac, input_wise, lock, send_ids, cyclic, by-turns}}
  launch.actor @source kind "by-turn" on <0, cpu:0> stream 0 reads [] writes [@x] {
  }
  launch.actor @sink on <0, cpu:0> stream 1 reads [@x] writes [] {
  }
}
