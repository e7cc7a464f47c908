// RUN: penstock-opt %s -p launch-form-waves | filecheck %s --match-full-lines

// Two calls of an actor that use none of each other's results become one, of a kernel
// with two members: threads share these out.

!x = memref<16xf32>

// EXAMPLE-BEFORE
launch.program @example rank 0 {
// EXAMPLE-SKIP
  launch.chunk @c on <0, host> size 256
  launch.register @x in @c at 0 slots 1 : !x
  launch.register @a in @c at 64 slots 1 : !x
  launch.register @b in @c at 128 slots 1 : !x
  launch.kernel @twice target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} { linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) { ^bb0(%p: f32, %q: f32): %r = arith.addf %p, %p : f32 linalg.yield %r : f32 } }
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@x] { launch.feed "x" to @x }
// EXAMPLE-RESUME
  launch.actor @a..b on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] {
    launch.call @twice [@x, @a]
    launch.call @twice [@x, @b]
  }
}
// EXAMPLE-AFTER
// CHECK:        launch.kernel @wave_0 target "cpu" ({{.*}}) attributes {{{.*}}, members = array<i64: 2, 2>} {
// CHECK-NEXT:     linalg.generic {{.*}} ins({{.*}} : memref<16xf32>) outs({{.*}} : memref<16xf32>) {
// CHECK:          linalg.generic {{.*}} ins({{.*}} : memref<16xf32>) outs({{.*}} : memref<16xf32>) {
// CHECK:        launch.actor @a..b on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] {
// CHECK-NEXT:     launch.call @wave_0 [@x, @a, @x, @b]
// CHECK-NEXT:   }
// EXAMPLE-END
