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
  // expected-error@+1 {{verify-program: @one and @two both write variable @w}}
  launch.actor @two on <0, cpu:0> stream 0 reads [@x] writes [] { launch.copy @x to @w }
  // expected-error@+1 {{verify-program: @three writes @w, a variable}}
  launch.actor @three on <0, cpu:0> stream 0 reads [] writes [] {
    launch.feed "w" to @w
    launch.copy @w to @w
  }
}

// -----

// Who can fail acts before all that writes variables: before it by registers, by way of a
// commit, or in an earlier step.

!t = memref<4xf32>

// CHECK-LABEL: launch.program @committed
launch.program @committed rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.variable @v in @c at 128 init <ones> : !t
  launch.register @g in @c at 192 slots 1 : !t
  launch.control @k slots 2
  launch.control @l slots 1
  launch.kernel @fill target "cpu" (%o: !t) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !t)
  }
  launch.actor @g_ on <0, cpu:0> stream 0 can_fail reads [] writes [@g, @k] { launch.call @fill [@g] }
  launch.actor @commit on <0, cpu:0> stream 1 reads [@k] writes [@l] { launch.commit }
  launch.actor @w_ on <0, cpu:0> stream 0 reads [@l] writes [] { launch.copy @v to @w }
  launch.actor @u_ on <0, cpu:0> stream 0 reads [@g] writes [] { launch.copy @g to @u }
}

// -----

!t = memref<4xf32>

launch.program @early rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.variable @v in @c at 128 init <ones> : !t
  launch.register @g in @c at 192 slots 1 : !t
  launch.control @k slots 2 initial 1
  launch.kernel @fill target "cpu" (%o: !t) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !t)
  }
  // expected-error@+1 {{verify-program: @g_ writes a variable before it may fail}}
  launch.actor @g_ on <0, cpu:0> stream 0 can_fail reads [] writes [@g, @k] {
    launch.copy @v to @u
    launch.call @fill [@g]
  }
  // expected-error@+1 {{verify-program: @w_ may write a variable before @g_ fails}}
  launch.actor @w_ on <0, cpu:0> stream 0 reads [@k] writes [] { launch.copy @v to @w }
}

// -----

// On a device a commit has to come between, also within an actor.

!t = memref<4xf32>

launch.program @device rank 0 {
  launch.chunk @c on <0, device cuda:0> size 256
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.variable @v in @c at 128 init <ones> : !t
  launch.register @g in @c at 192 slots 1 : !t
  launch.control @k slots 2
  launch.control @l slots 1
  launch.kernel @fill target "cuda" (%o: !t) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !t)
  }
  launch.actor @g_ on <0, cuda:0> stream 0 can_fail reads [] writes [@g, @k] { launch.call @fill [@g] }
  launch.actor @commit on <0, cpu:0> stream 1 reads [@k] writes [@l] { launch.commit }
  launch.actor @w_ on <0, cuda:0> stream 0 reads [@l] writes [] { launch.copy @v to @w }
  // expected-error@+1 {{verify-program: @u_ may write a variable before the host knows whether @g_ fails, without a commit between them}}
  launch.actor @u_ on <0, cuda:0> stream 0 reads [@g] writes [] { launch.copy @g to @u }
}
