// RUN: penstock-opt %s -p launch-order-commits --split-input-file --verify-diagnostics | filecheck %s

// What writes over a variable waits for a kernel that can fail only since it was chosen,
// as a copy to it does. If it comes before that one, or can fail itself, it is too late.

!t = memref<4xf32>

// CHECK-LABEL: launch.program @waits
// CHECK:         launch.control @"fails -> commit" slots 2
// CHECK:         launch.control @"commit -> next" slots 1
// CHECK:         launch.actor @fails on <0, cpu:0> stream 0 can_fail reads [] writes [@"fails -> commit"]
// CHECK:         launch.actor @next on <0, cpu:0> stream 1 reads [@"commit -> next"] writes [@told] updates [@w as @told]
launch.program @waits rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.control @told slots 1
  launch.kernel @one target "cpu" (%a: !t) { %z = arith.constant 1.0 : f32 linalg.fill ins(%z : f32) outs(%a : !t) }
  launch.actor @fails on <0, cpu:0> stream 0 can_fail reads [] writes [] { }
  launch.actor @next on <0, cpu:0> stream 1 reads [] writes [@told] updates [@w as @told] { launch.call @one [@w] }
  launch.actor @assign on <0, cpu:0> stream 1 reads [@told] writes [] { }
}

// -----

!t = memref<4xf32>

launch.program @late rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.control @told slots 1
  launch.control @"told too" slots 1
  launch.control @then slots 1
  launch.kernel @one target "cpu" (%a: !t) { %z = arith.constant 1.0 : f32 linalg.fill ins(%z : f32) outs(%a : !t) }
  // expected-error@+1 {{launch-order-commits: @next writes over a variable before others can fail}}
  launch.actor @next on <0, cpu:0> stream 1 reads [] writes [@told, @then] updates [@w as @told] { launch.call @one [@w] }
  launch.actor @fails on <0, cpu:0> stream 0 can_fail reads [@then] writes [] { }
  // expected-error@+1 {{launch-order-commits: @next_u can fail, but writes over a variable}}
  launch.actor @next_u on <0, cpu:0> stream 1 can_fail reads [] writes [@"told too"] updates [@u as @"told too"] { launch.call @one [@u] }
  launch.actor @assign on <0, cpu:0> stream 1 reads [@told, @"told too"] writes [] { }
}
