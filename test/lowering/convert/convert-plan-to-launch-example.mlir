// RUN: penstock-opt %s -p convert-plan-to-launch | filecheck %s --match-full-lines

// The task `relu` becomes an actor, its op a kernel, and its registers lie at fixed
// bytes of a chunk.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// EXAMPLE-BEFORE
plan.plan @example {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %h = regst.register "h" in %m at 64 slots 1 on <0, host> : !r
  plan.task "feed" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) { %v = job.input "x" : !t plan.yield %v : !t }
  plan.task "relu" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%h : !r) { ^bb0(%v: !t): %u = op.relu %v : !t -> !t plan.yield %u : !t }
}
// EXAMPLE-AFTER
// CHECK:      launch.program @example rank 0 {
// CHECK-NEXT:   launch.chunk @c0 on <0, host> size 128
// CHECK-NEXT:   launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
// CHECK-NEXT:   launch.register @h in @c0 at 64 slots 1 : memref<4xf32>
// CHECK-NEXT:   launch.kernel @relu_0 target "cpu" (%in0: memref<4xf32>, %out0: memref<4xf32>) {{.*}} {
// CHECK:        launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
// CHECK:        launch.actor @relu on <0, cpu:0> stream 0 reads [@x] writes [@h] {
// CHECK-NEXT:     launch.call @relu_0 [@x, @h]
// CHECK-NEXT:   }
// CHECK-NEXT: }
// EXAMPLE-END
