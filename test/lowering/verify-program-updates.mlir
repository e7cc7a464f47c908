// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file | filecheck %s

// A copy may write a variable if all who use its bytes, under whatever name, act before
// that, and again after it.

!t = memref<16xf32>
!v = memref<4x4xf32>

// CHECK-LABEL: launch.program @ordered
launch.program @ordered rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.register @x in @c at 64 slots 1 : !t
  launch.register @view in @c at 0 slots 1 : !v
  launch.control @turn slots 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @view_ on <0, cpu:0> stream 0 reads [] writes [@view] views [@w as @view] { }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@view] writes [@turn] { launch.fetch "y" from @view }
  launch.actor @w_ on <0, cpu:0> stream 0 reads [@x, @turn] writes [] { launch.copy @x to @w }
}

// -----

!t = memref<16xf32>
!v = memref<4x4xf32>

launch.program @unordered rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.register @x in @c at 64 slots 1 : !t
  launch.register @view in @c at 0 slots 1 : !v
  launch.control @twice slots 2
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @view_ on <0, cpu:0> stream 0 reads [] writes [@view] views [@w as @view] { }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@view] writes [] { launch.fetch "y" from @view }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [] writes [@twice] { launch.fetch "z" from @w }
  // expected-error@+2 {{verify-program: @y_ may use variable @w after @w_ has written it}}
  // expected-error@+1 {{verify-program: @z_ may use variable @w again before @w_ has written it}}
  launch.actor @w_ on <0, cpu:0> stream 0 reads [@x, @twice] writes [] { launch.copy @x to @w }
}

// -----

// Only a copy may write a variable, and only one.

!t = memref<16xf32>

launch.program @writers rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.register @x in @c at 64 slots 1 : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  // expected-error@+2 {{verify-program: @two may use variable @w after @one has written it}}
  // expected-error@+1 {{verify-program: @three may use variable @w after @one has written it}}
  launch.actor @one on <0, cpu:0> stream 0 reads [@x] writes [] { launch.copy @x to @w }
  // expected-error@+1 {{verify-program: @one and @two both write @w, a variable}}
  launch.actor @two on <0, cpu:0> stream 0 reads [@x] writes [] { launch.copy @x to @w }
  // expected-error@+1 {{verify-program: @three writes @w, a variable}}
  launch.actor @three on <0, cpu:0> stream 0 reads [] writes [] {
    launch.feed "w" to @w
    launch.copy @w to @w
  }
}
