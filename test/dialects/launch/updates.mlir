// RUN: penstock-opt %s | penstock-opt | filecheck %s

!t = memref<4xf32>

launch.program @updates rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.control @"w_next/out" slots 1
  launch.control @"w_next/out_1" slots 1
  launch.kernel @ones target "cpu" (%a: !t, %b: !t) { %z = arith.constant 1.0 : f32 linalg.fill ins(%z : f32) outs(%a : !t) linalg.fill ins(%z : f32) outs(%b : !t) }
  // CHECK: launch.actor @w_next on <0, cpu:0> stream 0 reads [] writes [@"w_next/out", @"w_next/out_1"] updates [@w as @"w_next/out", @u as @"w_next/out_1"] {
  launch.actor @w_next on <0, cpu:0> stream 0 reads [] writes [@"w_next/out", @"w_next/out_1"] updates [@w as @"w_next/out", @u as @"w_next/out_1"] { launch.call @ones [@w, @u] }
  // CHECK: launch.actor @assign on <0, cpu:0> stream 0 reads [@"w_next/out", @"w_next/out_1"] writes [] {
  launch.actor @assign on <0, cpu:0> stream 0 reads [@"w_next/out", @"w_next/out_1"] writes [] { }
}
