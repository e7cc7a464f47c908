// RUN: penstock-opt %s --load %S/../../../examples/plugins/actor_kind.py -p launch-expand-kinds,verify-program | filecheck %s

// Pieces are dealt to two registers by turns, and taken from these in the same order.
// CHECK-LABEL: launch.program @turns
launch.program @turns rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.register @a in @c at 128 slots 1 : memref<4xf32>
  launch.register @b in @c at 256 slots 1 : memref<4xf32>
  launch.register @y in @c at 384 slots 1 : memref<4xf32>
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  // CHECK: launch.actor @deal kind "cyclic" lists [array<i64: 0, 1>, array<i64: 0, 2>] on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] attributes {rule = "by-turns"} {
  launch.actor @deal kind "by-turns" on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] {
    launch.copy @x to @a {on = @a}
    launch.copy @x to @b {on = @b}
  }
  // CHECK: launch.actor @join kind "cyclic" lists [array<i64: 0, 2>, array<i64: 1, 2>] on <0, cpu:0> stream 1 reads [@a, @b] writes [@y] attributes {rule = "by-turns"} {
  launch.actor @join kind "by-turns" on <0, cpu:0> stream 1 reads [@a, @b] writes [@y] {
    launch.copy @a to @y {on = @a}
    launch.copy @b to @y {on = @b}
  }
  launch.actor @fetch on <0, cpu:0> stream 1 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}

// A kind that is ours stays, as do actors without a kind.
// CHECK-LABEL: launch.program @ours
launch.program @ours rank 0 {
  launch.chunk @c on <0, host> size 1024
  launch.register @id in @c at 0 slots 1 : memref<i64>
  launch.control @a slots 1
  launch.control @b slots 1
  launch.actor @ids on <0, cpu:0> stream 0 reads [] writes [@id] {
    launch.feed "id" to @id
  }
  // CHECK: launch.actor @case kind "case" on <0, cpu:0> stream 0 reads [@id] writes [@a, @b] {
  launch.actor @case kind "case" on <0, cpu:0> stream 0 reads [@id] writes [@a, @b] {
  }
  launch.actor @sink_a on <0, cpu:0> stream 1 reads [@a] writes [] {
  }
  launch.actor @sink_b on <0, cpu:0> stream 2 reads [@b] writes [] {
  }
}
