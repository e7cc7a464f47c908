// RUN: penstock-opt %s -p launch-order-commits --verify-diagnostics

!t = memref<4xf32>

launch.program @ranks rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @v in @c at 128 init <ones> : !t
  launch.actor @g_ on <1, cpu:0> stream 0 can_fail reads [] writes [] { }
  // expected-error@+1 {{launch-order-commits: @w_ has to wait for @g_ of another rank, which can fail}}
  launch.actor @w_ on <0, cpu:0> stream 1 reads [] writes [] { launch.copy @v to @w }
}
