// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file | filecheck %s

// A kernel may write over a variable if its actor says so, and if all others that use its
// bytes act before that, and again after it.

!t = memref<16xf32>

// CHECK-LABEL: launch.program @ordered
launch.program @ordered rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.control @"next/out" slots 1
  launch.control @turn slots 1
  launch.kernel @exp target "cpu" (%a: !t) { linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : !t) outs(%a : !t) { ^bb0(%x: f32, %y: f32): %z = math.exp %x : f32 linalg.yield %z : f32 } }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [] writes [@turn] { launch.fetch "y" from @w }
  // CHECK: launch.actor @next on <0, cpu:0> stream 0 reads [@turn] writes [@"next/out"] updates [@w as @"next/out"] {
  launch.actor @next on <0, cpu:0> stream 0 reads [@turn] writes [@"next/out"] updates [@w as @"next/out"] { launch.call @exp [@w] }
  launch.actor @assign on <0, cpu:0> stream 0 reads [@"next/out"] writes [] { }
}

// -----

// To come before the actor that is told of it is not enough.

!t = memref<16xf32>

launch.program @unordered rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.control @"next/out" slots 1
  launch.control @turn slots 1
  launch.control @twice slots 2
  launch.kernel @exp target "cpu" (%a: !t) { linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : !t) outs(%a : !t) { ^bb0(%x: f32, %y: f32): %z = math.exp %x : f32 linalg.yield %z : f32 } }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [] writes [@turn] { launch.fetch "y" from @w }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [] writes [@twice] { launch.fetch "z" from @w }
  // expected-error@+2 {{verify-program: @y_ may use variable @w after @next has written it}}
  // expected-error@+1 {{verify-program: @z_ may use variable @w again before @next has written it}}
  launch.actor @next on <0, cpu:0> stream 0 reads [@twice] writes [@"next/out"] updates [@w as @"next/out"] { launch.call @exp [@w] }
  launch.actor @assign on <0, cpu:0> stream 0 reads [@"next/out", @turn] writes [] { }
}

// -----

// It says nothing, or of another variable.

!t = memref<16xf32>

launch.program @unsaid rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.control @told slots 1
  launch.kernel @exp target "cpu" (%a: !t) { linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : !t) outs(%a : !t) { ^bb0(%x: f32, %y: f32): %z = math.exp %x : f32 linalg.yield %z : f32 } }
  // expected-error@+2 {{verify-program: @next writes @w, a variable}}
  // expected-error@+1 {{verify-program: @next updates @u, but no kernel of it alone writes that}}
  launch.actor @next on <0, cpu:0> stream 0 reads [] writes [@told] updates [@u as @told] { launch.call @exp [@w] }
  launch.actor @assign on <0, cpu:0> stream 0 reads [@told] writes [] { }
}

// -----

// A kernel is given the variable twice, or with a view of it; another step uses it later.

!t = memref<16xf32>
!v = memref<4x4xf32>

launch.program @shared rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.register @view in @c at 64 slots 1 : !v
  launch.control @told slots 1
  launch.control @"told too" slots 1
  launch.kernel @exp target "cpu" (%b: !t, %a: !t) { linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%b : !t) outs(%a : !t) { ^bb0(%x: f32, %y: f32): %z = math.exp %x : f32 linalg.yield %z : f32 } }
  launch.kernel @one target "cpu" (%b: !v, %a: !t) { %z = arith.constant 1.0 : f32 linalg.fill ins(%z : f32) outs(%a : !t) }
  launch.actor @next on <0, cpu:0> stream 0 reads [] writes [@told] updates [@w as @told] {
    // expected-error@+2 {{verify-program: @next updates @w, but uses its bytes twice}}
    // expected-error@+1 {{verify-program: @next gives @w twice to a step that writes it}}
    launch.call @exp [@w, @w]
    // expected-error@+1 {{verify-program: @next updates @w, but uses its bytes again}}
    launch.call @exp [@u, @w]
  }
  launch.actor @view_ on <0, cpu:0> stream 0 reads [@told] writes [@view] views [@u as @view] { }
  // expected-error@+1 {{verify-program: @next may use variable @u again before @next_u has written it}}
  launch.actor @next_u on <0, cpu:0> stream 0 reads [@view] writes [@"told too"] updates [@u as @"told too"] {
    // expected-error@+1 {{verify-program: @next_u updates @u, but uses its bytes twice}}
    launch.call @one [@view, @u]
  }
  launch.actor @assign on <0, cpu:0> stream 0 reads [@"told too"] writes [] { }
}

// -----

// What writes over a variable cannot fail, and comes after all that can.

!t = memref<16xf32>

launch.program @failing rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.control @told slots 1
  launch.control @"told too" slots 1
  launch.kernel @exp target "cpu" (%a: !t) { linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : !t) outs(%a : !t) { ^bb0(%x: f32, %y: f32): %z = math.exp %x : f32 linalg.yield %z : f32 } }
  // expected-error@+1 {{verify-program: @next writes a variable before it may fail}}
  launch.actor @next on <0, cpu:0> stream 0 can_fail reads [] writes [@told] updates [@w as @told] { launch.call @exp [@w] }
  // expected-error@+1 {{verify-program: @other may write a variable before @next fails}}
  launch.actor @other on <0, cpu:0> stream 0 reads [] writes [@"told too"] updates [@u as @"told too"] { launch.call @exp [@u] }
  launch.actor @assign on <0, cpu:0> stream 0 reads [@told, @"told too"] writes [] { }
}
