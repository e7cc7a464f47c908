// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file | filecheck %s

// Registers share bytes if the users of the one act before the writer of the other, and
// the other way round from one act to the next: here over data and a control.

!t = memref<16xf32>

// CHECK-LABEL: launch.program @in_turn
launch.program @in_turn rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @a in @c at 64 slots 1 : !t
  launch.register @b in @c at 0 slots 1 : !t
  launch.control @turn slots 1 initial 1
  launch.actor @x_ on <0, cpu:0> stream 0 reads [@turn] writes [@x] { launch.feed "x" to @x }
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x] writes [@a] { launch.copy @x to @a }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [@a] writes [@b] { launch.copy @a to @b }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@b] writes [@turn] { launch.fetch "y" from @b }
}

// -----

// A stream orders nothing, and what one step reads and writes never shares bytes. What
// is shared is counted over all slots, and chunks never share any.

!t = memref<16xf32>

launch.program @together rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.chunk @other on <0, host> size 256
  launch.register @x in @c at 0 slots 2 : !t
  // expected-error@+1 {{verify-program: registers @x and @a share 96 bytes, but @a_ may use @x after @a_ has begun to write @a}}
  launch.register @a in @c at 32 slots 2 : !t
  launch.register @b in @other at 0 slots 2 : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x] writes [@a] { launch.copy @x to @a }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [@a] writes [@b] { launch.copy @a to @b }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@b] writes [] { launch.fetch "y" from @b }
}

// -----

// One act of the way back without a wait is enough to be too early.

!t = memref<16xf32>

launch.program @too_early rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @a in @c at 64 slots 1 : !t
  // expected-error@+1 {{registers @x and @b share 64 bytes, but @b_ may use @b after @x_ has begun to write @x again}}
  launch.register @b in @c at 0 slots 1 : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x] writes [@a] { launch.copy @x to @a }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [@a] writes [@b] { launch.copy @a to @b }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@b] writes [] { launch.fetch "y" from @b }
}

// -----

// The last user of a register may write over it: in place, or in a later step. Who reads
// the result holds what lay there first, so that its writer waits. Each of two slots has
// a turn of its own.

!t = memref<16xf32>

// CHECK-LABEL: launch.program @in_place
launch.program @in_place rank 0 {
  launch.chunk @c on <0, host> size 192
  launch.register @x in @c at 0 slots 2 : !t
  launch.register @a in @c at 0 slots 2 : !t
  launch.register @tmp in @c at 128 slots 1 : !t
  launch.register @b in @c at 0 slots 2 : !t
  launch.kernel @double target "cpu" (%o: memref<16xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%o : memref<16xf32>) outs(%o : memref<16xf32>) {
    ^bb0(%v: f32, %w: f32):
      %s = arith.addf %v, %v : f32
      linalg.yield %s : f32
    }
  }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x] writes [@a] views [@x as @a] { launch.call @double [@a] }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [@a, @x] writes [@tmp, @b] {
    launch.copy @a to @tmp
    launch.copy @tmp to @b
  }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@b, @x] writes [] { launch.fetch "y" from @b }
}

// -----

// A kernel may write over another argument only where it promises to change nothing.

!t = memref<8xf32>

launch.program @unchanged rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @a in @c at 0 slots 1 : !t
  // expected-error@+1 {{registers @a and @b share 32 bytes, but @b_ may use @a after @b_ has begun to write @b}}
  launch.register @b in @c at 0 slots 1 : !t
  launch.kernel @copy target "cpu" (%i: memref<8xf32>, %o: memref<8xf32>) {
    "memref.copy"(%i, %o) : (memref<8xf32>, memref<8xf32>) -> ()
  }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x] writes [@a] views [@x as @a] {
    launch.call @copy [@x, @a] {unchanged = [@x]}
  }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [@a, @x] writes [@b] {
    launch.call @copy [@a, @b]
  }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@b, @x] writes [] { launch.fetch "y" from @b }
}

// -----

// Nobody else may use what is written over, under whatever name.

!t = memref<16xf32>
!h = memref<8xf32>

launch.program @late rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @half in @c at 32 slots 1 : !h
  // expected-error@+1 {{registers @x and @a share 64 bytes, but @z_ may use @x after @a_ has begun to write @a}}
  launch.register @a in @c at 0 slots 1 : !t
  launch.kernel @zero target "cpu" (%o: memref<16xf32>) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<16xf32>)
  }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @half_ on <0, cpu:0> stream 0 reads [@x] writes [@half] views [@x at 32 as @half] { }
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x] writes [@a] { launch.call @zero [@a] }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@a, @x] writes [] { launch.fetch "y" from @a }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [@half, @x] writes [] { launch.fetch "z" from @half }
}

// -----

// Who reads what is handed on holds it, so that it is not written again too early.

!t = memref<16xf32>

launch.program @unheld rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{@y_ may use @x after @x_ has begun to write @x again}}
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @view in @c at 0 slots 1 : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @view_ on <0, cpu:0> stream 0 reads [@x] writes [@view] views [@x as @view] { }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@view] writes [] { launch.fetch "y" from @view }
}

// -----

// An actor without steps has views: of parts that are a whole together, and of a part of
// a variable.

!t = memref<16xf32>
!h = memref<8xf32>

// CHECK-LABEL: launch.program @parts
launch.program @parts rank 0 {
  launch.chunk @c on <0, host> size 128
  launch.variable @w in @c at 64 init <ones> : !t
  launch.register @a in @c at 0 slots 1 : !h
  launch.register @b in @c at 32 slots 1 : !h
  launch.register @whole in @c at 0 slots 1 : !t
  launch.register @piece in @c at 96 slots 1 : !h
  launch.actor @a_ on <0, cpu:0> stream 0 reads [] writes [@a] { launch.feed "a" to @a }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [] writes [@b] { launch.feed "b" to @b }
  launch.actor @whole_ on <0, cpu:0> stream 0 reads [@a, @b] writes [@whole] views [@a as @whole, @b at -32 as @whole] { }
  launch.actor @piece_ on <0, cpu:0> stream 0 reads [] writes [@piece] views [@w at 32 as @piece] { }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@whole, @a, @b] writes [] { launch.fetch "y" from @whole }
  launch.actor @z_ on <0, cpu:0> stream 0 reads [@piece] writes [] { launch.fetch "z" from @piece }
}

// -----

// All that is handed on without a step is a view; 16 of these 48 bytes are none.

launch.program @missing rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @a in @c at 0 slots 1 : memref<8xf32>
  launch.register @whole in @c at 0 slots 1 : memref<12xf32>
  launch.actor @a_ on <0, cpu:0> stream 0 reads [] writes [@a] { launch.feed "a" to @a }
  // expected-error@+1 {{@whole_ has no step that writes @whole, and 16 of its bytes are views of nothing}}
  launch.actor @whole_ on <0, cpu:0> stream 0 reads [@a] writes [@whole] views [@a as @whole] { }
}

// -----

// A variable keeps what it had at the start, and a reader writes nothing.

!t = memref<16xf32>

launch.program @variable rank 0 {
  launch.chunk @c on <0, host> size 192
  launch.variable @w in @c at 0 init <zeros> : !t
  // expected-error@+1 {{verify-program: @x lies on 32 bytes of @w, a variable}}
  launch.register @x in @c at 32 slots 1 : !t
  launch.kernel @copy target "cpu" (%i: memref<16xf32>, %o: memref<16xf32>) {
    "memref.copy"(%i, %o) : (memref<16xf32>, memref<16xf32>) -> ()
  }
  launch.kernel @fill target "cpu" (%o: memref<16xf32>) {
    %v = memref.expand_shape %o [[0, 1]] output_shape [4, 4] : memref<16xf32> into memref<4x4xf32>
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%v : memref<4x4xf32>)
  }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  // expected-error@+1 {{@y_ writes @x, which it only reads}}
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@x] writes [] { launch.call @copy [@w, @x] }
  // expected-error@+1 {{@z_ writes @w, a variable}}
  launch.actor @z_ on <0, cpu:0> stream 0 reads [] writes [] { launch.call @fill [@w] }
}

// -----

// A cycle without a token never acts.

launch.program @deadlock rank 0 {
  launch.control @k slots 1
  launch.control @l slots 2
  // expected-error@+1 {{a cycle of actors has no token, so none ever acts: @a -> @b -> @a}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@k] writes [@l] { }
  launch.actor @b on <0, cpu:0> stream 0 reads [@l] writes [@k] { }
}

// -----

// A kernel that adds to what its result held needs something there: nobody has put it
// there for @a. What is made over @a is there, and so is what an earlier step wrote.

!t = memref<16xf32>

launch.program @adds_to_nothing rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @a in @c at 64 slots 1 : !t
  launch.register @b in @c at 64 slots 1 : !t
  launch.register @d in @c at 128 slots 1 : !t
  launch.kernel @add target "cpu" (%i: memref<16xf32>, %o: memref<16xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%i : memref<16xf32>) outs(%o : memref<16xf32>) {
    ^bb0(%v: f32, %w: f32):
      %s = arith.addf %v, %w : f32
      linalg.yield %s : f32
    }
  }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  // expected-error@+1 {{verify-program: @a_ reads @a before it writes it, and 64 of its bytes are views of nothing}}
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x] writes [@a] { launch.call @add [@x, @a] }
  launch.actor @b_ on <0, cpu:0> stream 0 reads [@a, @x] writes [@b] views [@a as @b] { launch.call @add [@x, @b] }
  launch.actor @d_ on <0, cpu:0> stream 0 reads [@x] writes [@d] {
    launch.copy @x to @d
    launch.call @add [@x, @d]
  }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@b, @a, @d] writes [] {
    launch.fetch "y" from @b
    launch.fetch "z" from @d
  }
}

// -----

// Loops that load what is not stored yet are seen; what is filled may be read.

!t = memref<16xf32>

launch.program @loads rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.register @a in @c at 0 slots 1 : !t
  launch.register @d in @c at 128 slots 1 : !t
  launch.kernel @load target "cpu" (%o: memref<16xf32>) {
    %0 = arith.constant 0 : index
    %1 = arith.constant 1 : index
    %16 = arith.constant 16 : index
    "scf.parallel"(%0, %16, %1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
      %v = memref.load %o[%i] : memref<16xf32>
      memref.store %v, %o[%i] : memref<16xf32>
      scf.reduce
    }) : (index, index, index) -> ()
  }
  launch.kernel @filled target "cpu" (%o: memref<16xf32>) {
    %zero = arith.constant 0.0 : f32
    linalg.fill ins(%zero : f32) outs(%o : memref<16xf32>)
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%o : memref<16xf32>) {
    ^bb0(%w: f32):
      %s = arith.addf %w, %w : f32
      linalg.yield %s : f32
    }
  }
  // expected-error@+1 {{@a_ reads @a before it writes it}}
  launch.actor @a_ on <0, cpu:0> stream 0 reads [] writes [@a] { launch.call @load [@a] }
  launch.actor @d_ on <0, cpu:0> stream 0 reads [] writes [@d] { launch.call @filled [@d] }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@a, @d] writes [] {
    launch.fetch "y" from @a
    launch.fetch "z" from @d
  }
}

// -----

// Half of what lies under @all was written over by @half, and the other half is still what
// @x wrote: a copy of @all has both.

!t = memref<32xf32>
!h = memref<16xf32>

// CHECK-LABEL: launch.program @half_overwritten
launch.program @half_overwritten rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @half in @c at 64 slots 1 : !h
  launch.register @first in @c at 0 slots 1 : !h
  launch.register @all in @c at 0 slots 1 : !t
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  launch.actor @half_ on <0, cpu:0> stream 0 reads [@x] writes [@half] { launch.feed "h" to @half }
  launch.actor @first_ on <0, cpu:0> stream 0 reads [@x] writes [@first] views [@x as @first] { }
  launch.actor @all_ on <0, cpu:0> stream 0 reads [@x, @first, @half] writes [@all] views [@first as @all, @half at -64 as @all] { }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@all, @x] writes [] { launch.fetch "y" from @all }
}

// -----

// Of several registers that lie under a result the kernel works on the one that its view
// names: @held is only there to be held.

!t = memref<16xf32>
!h = memref<8xf32>

launch.program @other_source rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @held in @c at 0 slots 1 : !t
  launch.register @x in @c at 32 slots 1 : !h
  launch.register @a in @c at 0 slots 1 : !h
  launch.kernel @double target "cpu" (%o: memref<8xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%o : memref<8xf32>) outs(%o : memref<8xf32>) {
    ^bb0(%v: f32, %w: f32):
      %s = arith.addf %v, %v : f32
      linalg.yield %s : f32
    }
  }
  launch.actor @held_ on <0, cpu:0> stream 0 reads [] writes [@held] { launch.feed "x" to @held }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [@held] writes [@x] views [@held at 32 as @x] { }
  // expected-error@+1 {{@a_ reads @a before it writes it, and 32 of its bytes are views of nothing}}
  launch.actor @a_ on <0, cpu:0> stream 0 reads [@x, @held] writes [@a] { launch.call @double [@a] }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@a, @held] writes [] { launch.fetch "y" from @a }
}

// -----

// A control that nobody waits for orders nothing.

launch.program @lonely rank 0 {
  // expected-error@+1 {{verify-program: no actor waits for control @k}}
  launch.control @k slots 1
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@k] { }
}

// -----

// An actor reads what it has not yet written, and gives a kernel a result twice; that it
// copies a register to itself changes nothing.

!t = memref<16xf32>

launch.program @too_early rank 0 {
  launch.chunk @c on <0, host> size 192
  launch.register @x in @c at 0 slots 1 : !t
  launch.register @a in @c at 64 slots 1 : !t
  launch.register @b in @c at 128 slots 1 : !t
  launch.kernel @exp target "cpu" (%i: !t, %o: !t) { linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%i : !t) outs(%o : !t) { ^bb0(%x: f32, %y: f32): %z = math.exp %x : f32 linalg.yield %z : f32 } }
  launch.actor @x_ on <0, cpu:0> stream 0 reads [] writes [@x] { launch.feed "x" to @x }
  // expected-error@+1 {{verify-program: @ab reads @b before it writes it, and 64 of its bytes are views of nothing}}
  launch.actor @ab on <0, cpu:0> stream 0 reads [@x] writes [@a, @b] {
    launch.call @exp [@b, @a]
    launch.call @exp [@x, @b]
    launch.call @exp [@b, @a]
    // expected-error@+1 {{verify-program: @ab gives @a twice to a step that writes it}}
    launch.call @exp [@a, @a]
    launch.copy @b to @b
  }
  launch.actor @y_ on <0, cpu:0> stream 0 reads [@a, @b] writes [] { launch.fetch "y" from @a launch.fetch "z" from @b }
}
