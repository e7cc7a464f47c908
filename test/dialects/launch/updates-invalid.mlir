// RUN: penstock-opt %s --split-input-file --verify-diagnostics

!t = memref<4xf32>

launch.program @no_variable rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.register @w in @c at 0 slots 1 : !t
  launch.control @told slots 1
  // expected-error@+1 {{launch.actor: @a updates @w, which is no whole variable}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@told, @w] updates [@w as @told] { }
}

// -----

!t = memref<4xf32>

launch.program @part rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.control @told slots 1
  // expected-error@+1 {{launch.actor: @a updates @w, which is no whole variable}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@told] updates [@w at 4 as @told] { }
}

// -----

!t = memref<4xf32>

launch.program @no_control rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.register @x in @c at 64 slots 1 : !t
  // expected-error@+1 {{launch.actor: @a updates @w as @x, which is no control that it writes}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] updates [@w as @x] { }
}

// -----

!t = memref<4xf32>

launch.program @of_others rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.control @told slots 1
  launch.actor @b on <0, cpu:0> stream 0 reads [] writes [@told] { }
  // expected-error@+1 {{launch.actor: @a updates @w as @told, which is no control that it writes}}
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [] updates [@w as @told] { }
}
