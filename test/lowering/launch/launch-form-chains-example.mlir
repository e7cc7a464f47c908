// RUN: penstock-opt %s -p launch-form-chains | filecheck %s --match-full-lines

// Two actors of one stream call one kernel each, the second one on the result of the
// first. One actor does, whose kernel computes both.

!x = memref<16xf32>

// EXAMPLE-BEFORE
launch.program @example rank 0 {
// EXAMPLE-SKIP
  launch.chunk @c on <0, host> size 256
  launch.register @x in @c at 0 slots 1 : !x
  launch.register @a in @c at 64 slots 1 : !x
  launch.register @b in @c at 128 slots 1 : !x
  launch.kernel @twice target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} { linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) { ^bb0(%p: f32, %q: f32): %r = arith.addf %p, %p : f32 linalg.yield %r : f32 } }
// EXAMPLE-RESUME
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @a1 on <0, cpu:0> stream 0 reads [@x] writes [@a] { launch.call @twice [@x, @a] }
  launch.actor @b1 on <0, cpu:0> stream 0 reads [@a] writes [@b] { launch.call @twice [@a, @b] }
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@b] writes [] { launch.fetch "b" from @b }
}
// EXAMPLE-AFTER
// CHECK:        launch.kernel @chain_0 target "cpu" ({{.*}}) {{.*}} {
// CHECK-NEXT:     linalg.generic {{.*}} ins({{.*}} : memref<16xf32>) outs({{.*}} : memref<16xf32>) {
// CHECK:          linalg.generic {{.*}} ins({{.*}} : memref<16xf32>) outs({{.*}} : memref<16xf32>) {
// CHECK:        launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
// CHECK:        launch.actor @a1..b1 on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] attributes {chain = ["a1", "b1"]} {
// CHECK-NEXT:     launch.call @chain_0 [@x, @a, @b]
// CHECK-NEXT:   }
// CHECK-NEXT:   launch.actor @fetch on <0, cpu:0> stream 0 reads [@b] writes [] {
// EXAMPLE-END
