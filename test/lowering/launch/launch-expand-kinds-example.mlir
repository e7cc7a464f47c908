// RUN: penstock-opt %s -p launch-expand-kinds --load %S/../../../examples/plugins/actor_kind.py | filecheck %s --match-full-lines

// With `--load examples/plugins/actor_kind.py` an actor of the kind `by-turns` deals pieces
// to three registers, one after the other.

launch.program @thirds rank 0 {
  launch.control @x slots 1
  launch.actor @source on <0, cpu:0> stream 0 reads [] writes [@x] {
  }
// EXAMPLE-BEFORE
  launch.control @a slots 1
  launch.control @b slots 1
  launch.control @c slots 1
  launch.actor @deal kind "by-turns" on <0, cpu:0> stream 0 reads [@x] writes [@a, @b, @c] {
  }
// EXAMPLE-AFTER
// CHECK:       launch.control @a slots 1
// CHECK-NEXT:  launch.control @b slots 1
// CHECK-NEXT:  launch.control @c slots 1
// CHECK-NEXT:  launch.actor @deal kind "cyclic" lists [array<i64: 0, 1>, array<i64: 0, 2>, array<i64: 0, 3>] on <0, cpu:0> stream 0 reads [@x] writes [@a, @b, @c] attributes {rule = "by-turns"} {
// EXAMPLE-END
  launch.actor @sink on <0, cpu:0> stream 0 reads [@a, @b, @c] writes [] {
  }
}
