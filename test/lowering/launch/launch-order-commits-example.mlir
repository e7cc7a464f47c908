// RUN: penstock-opt %s -p launch-order-commits | filecheck %s --match-full-lines

// The kernel of `h`, which was chosen after the plan was made, may fail: the variable
// `w` is written only after a commit that waits for it.

!x = memref<16xf32>

// EXAMPLE-BEFORE
launch.program @example rank 0 {
// EXAMPLE-SKIP
  launch.chunk @c on <0, host> size 192
  launch.variable @w in @c at 0 init <ones> : !x
  launch.variable @v in @c at 64 init <ones> : !x
  launch.register @g in @c at 128 slots 1 : !x
  launch.kernel @fill target "cpu" (%o: !x) attributes {source = "pass"} { %z = arith.constant 0.0 : f32 linalg.fill ins(%z : f32) outs(%o : !x) }
// EXAMPLE-RESUME
  launch.actor @h on <0, cpu:0> stream 0 can_fail reads [] writes [@g] { launch.call @fill [@g] }
  launch.actor @assign on <0, cpu:0> stream 0 reads [] writes [] { launch.copy @v to @w }
}
// EXAMPLE-AFTER
// CHECK:        launch.control @"h -> commit" slots 2
// CHECK-NEXT:   launch.control @"commit -> assign" slots 1
// CHECK-NEXT:   launch.actor @h on <0, cpu:0> stream 0 can_fail reads [] writes [@g, @"h -> commit"] {
// CHECK:        launch.actor @commit on <0, cpu:0> stream 1 reads [@"h -> commit"] writes [@"commit -> assign"] {
// CHECK-NEXT:     launch.commit
// CHECK-NEXT:   }
// CHECK-NEXT:   launch.actor @assign on <0, cpu:0> stream 0 reads [@"commit -> assign"] writes [] {
// EXAMPLE-END
