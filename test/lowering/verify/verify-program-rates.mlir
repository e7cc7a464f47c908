// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file | filecheck %s

// A sum, a batch and its parts have their bytes in turn.
// CHECK: launch.program @acc
launch.program @acc rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @g in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @sum in @c0 at 128 slots 1 : memref<4xf32>
  launch.register @p in @c0 at 256 slots 1 : memref<16xf32>
  launch.register @u in @c0 at 256 slots 4 over @p : memref<4xf32>
  launch.kernel @add target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.actor @pack on <0, cpu:0> stream 0 reads [@g] writes [@p] every [@p = 4] {
    launch.copy @g to @p
  }
  launch.actor @unpack on <0, cpu:0> stream 0 reads [@p] writes [@u] every [@p = 4] {
  }
  launch.actor @y on <0, cpu:0> stream 0 reads [@sum] writes [] { launch.fetch "y" from @sum }
  launch.actor @z on <0, cpu:0> stream 0 reads [@u, @p] writes [] every [@p = 4] { launch.fetch "z" from @u }
}

// -----

// Who reads a part holds the whole.
launch.program @acc rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @g in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @sum in @c0 at 128 slots 1 : memref<4xf32>
  // expected-error@+1 {{verify-program: @z may use @p after @pack has begun to write @p again}}
  launch.register @p in @c0 at 256 slots 1 : memref<16xf32>
  launch.register @u in @c0 at 256 slots 4 over @p : memref<4xf32>
  launch.kernel @add target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.actor @pack on <0, cpu:0> stream 0 reads [@g] writes [@p] every [@p = 4] {
    launch.copy @g to @p
  }
  launch.actor @unpack on <0, cpu:0> stream 0 reads [@p] writes [@u] every [@p = 4] {
  }
  launch.actor @y on <0, cpu:0> stream 0 reads [@sum] writes [] { launch.fetch "y" from @sum }
  launch.actor @z on <0, cpu:0> stream 0 reads [@u] writes [] { launch.fetch "z" from @u }
}

// -----

// The first act of a round begins the sum.
launch.program @acc rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @g in @c0 at 0 slots 2 : memref<4xf32>
  launch.register @sum in @c0 at 128 slots 1 : memref<4xf32>
  launch.register @p in @c0 at 256 slots 1 : memref<16xf32>
  launch.register @u in @c0 at 256 slots 4 over @p : memref<4xf32>
  launch.kernel @add target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  // expected-error@+1 {{verify-program: @acc has no step that writes @sum/0, and 16 of its bytes are views of nothing}}
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.actor @pack on <0, cpu:0> stream 0 reads [@g] writes [@p] every [@p = 4] {
    launch.copy @g to @p
  }
  launch.actor @unpack on <0, cpu:0> stream 0 reads [@p] writes [@u] every [@p = 4] {
  }
  launch.actor @y on <0, cpu:0> stream 0 reads [@sum] writes [] { launch.fetch "y" from @sum }
  launch.actor @z on <0, cpu:0> stream 0 reads [@u, @p] writes [] every [@p = 4] { launch.fetch "z" from @u }
}

// -----

// Terms do not lie where the sum does.
launch.program @acc rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @g in @c0 at 0 slots 2 : memref<4xf32>
  // expected-error@+1 {{verify-program: registers @g[0] and @sum share 16 bytes, but @acc may use @sum after @x has begun to write @g[0] again}}
  launch.register @sum in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @p in @c0 at 256 slots 1 : memref<16xf32>
  launch.register @u in @c0 at 256 slots 4 over @p : memref<4xf32>
  launch.kernel @add target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.actor @pack on <0, cpu:0> stream 0 reads [@g] writes [@p] every [@p = 4] {
    launch.copy @g to @p
  }
  launch.actor @unpack on <0, cpu:0> stream 0 reads [@p] writes [@u] every [@p = 4] {
  }
  launch.actor @y on <0, cpu:0> stream 0 reads [@sum] writes [] { launch.fetch "y" from @sum }
  launch.actor @z on <0, cpu:0> stream 0 reads [@u, @p] writes [] every [@p = 4] { launch.fetch "z" from @u }
}

// -----

// With three slots, twelve terms are in as many slots each time, and the last one lies on the sum.
launch.program @acc rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @g in @c0 at 0 slots 3 : memref<4xf32>
  // expected-error@+1 {{verify-program: registers @g[2] and @sum[0] share 16 bytes, but @pack may use @g[2] after @acc has begun to write @sum[0]}}
  launch.register @sum in @c0 at 128 slots 1 : memref<4xf32>
  launch.register @p in @c0 at 256 slots 1 : memref<16xf32>
  launch.register @u in @c0 at 256 slots 4 over @p : memref<4xf32>
  launch.kernel @add target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.actor @pack on <0, cpu:0> stream 0 reads [@g] writes [@p] every [@p = 4] {
    launch.copy @g to @p
  }
  launch.actor @unpack on <0, cpu:0> stream 0 reads [@p] writes [@u] every [@p = 4] {
  }
  launch.actor @y on <0, cpu:0> stream 0 reads [@sum] writes [] { launch.fetch "y" from @sum }
  launch.actor @z on <0, cpu:0> stream 0 reads [@u, @p] writes [] every [@p = 4] { launch.fetch "z" from @u }
}

// -----

// A piece is back too late: all of an iteration is looked at.
launch.program @late rank 0 {
  launch.control @x slots 1
  launch.control @back slots 2 initial 1
  // expected-error@+1 {{verify-program: a cycle of actors has no token, so none ever acts: @a -> @b -> @a}}
  launch.actor @a on <0, cpu:0> stream 0 reads [@back] writes [@x] every [@x = 2] {
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@x] writes [@back] every [@x = 2] {
  }
}

// -----

// Actors that take what comes order nothing, so what they use shares no bytes.
launch.program @kinds rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @i in @c0 at 0 slots 1 : memref<i64>
  // expected-error@+1 {{verify-program: registers @i and @j share 8 bytes, but @feed may use @i after @esac has begun to write @j}}
  launch.register @j in @c0 at 0 slots 1 : memref<i64>
  launch.control @a slots 1
  launch.control @b slots 1
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@i] { launch.feed "i" to @i }
  launch.actor @case kind "case" on <0, cpu:0> stream 0 reads [@i] writes [@a, @b] {
  }
  launch.actor @esac kind "esac" on <0, cpu:0> stream 0 reads [@a, @b] writes [@j] {
  }
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@j] writes [] { launch.fetch "j" from @j }
}

// -----

// With bytes of their own they may.
// CHECK: launch.program @kinds
launch.program @kinds rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @i in @c0 at 0 slots 1 : memref<i64>
  launch.register @j in @c0 at 64 slots 1 : memref<i64>
  launch.control @a slots 1
  launch.control @b slots 1
  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@i] { launch.feed "i" to @i }
  launch.actor @case kind "case" on <0, cpu:0> stream 0 reads [@i] writes [@a, @b] {
  }
  launch.actor @esac kind "esac" on <0, cpu:0> stream 0 reads [@a, @b] writes [@j] {
  }
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@j] writes [] { launch.fetch "j" from @j }
}

// -----

// Slots that do not divide the pieces of an iteration let several iterations count as one: 2 acts
// of @x in each of 113 x 127 iterations.
// expected-error@+1 {{verify-program: an actor acts 28702 times before each piece is in the same slot again, which may be 16384 times at most}}
launch.program @acc rank 0 {
  launch.chunk @c0 on <0, host> size 16384
  launch.register @g in @c0 at 0 slots 113 : memref<4xf32>
  launch.register @h in @c0 at 8192 slots 127 : memref<4xf32>
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  launch.actor @y on <0, cpu:0> stream 0 reads [] writes [@h] { launch.feed "y" to @h }
  launch.actor @z on <0, cpu:0> stream 0 reads [@g, @h] writes [] every [@g = 2] {
  }
}

// -----

// A variable has a new value in each iteration, also if several count as one: three here, as
// four terms are in three slots.
// CHECK: launch.program @assigns
launch.program @assigns rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.variable @w in @c0 at 0 init <ones> : memref<4xf32>
  launch.register @g in @c0 at 64 slots 3 : memref<4xf32>
  launch.register @sum in @c0 at 256 slots 1 : memref<4xf32>
  launch.kernel @add target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.control @old slots 1
  launch.actor @y on <0, cpu:0> stream 0 reads [@sum] writes [@old] { launch.fetch "y" from @w }
  launch.actor @assign on <0, cpu:0> stream 0 reads [@sum, @old] writes [] { launch.copy @sum to @w }
}

// -----

// An actor that may read the value of the iteration before, or of the one after that.
launch.program @unordered rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.variable @w in @c0 at 0 init <ones> : memref<4xf32>
  launch.register @g in @c0 at 64 slots 3 : memref<4xf32>
  launch.register @sum in @c0 at 256 slots 1 : memref<4xf32>
  launch.kernel @add target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
    linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
    ^bb0(%x: f32, %y: f32):
      %z = arith.addf %x, %y : f32
      linalg.yield %z : f32
    }
  }
  launch.actor @x on <0, cpu:0> stream 0 reads [] writes [@g] { launch.feed "x" to @g }
  launch.actor @acc on <0, cpu:0> stream 0 reads [@g] writes [@sum] every [@sum = 4] {
    launch.copy @g to @sum {when = "first"}
    launch.call @add [@g, @sum] {when = "rest"}
  }
  launch.control @read slots 2
  launch.control @new slots 1
  launch.actor @y on <0, cpu:0> stream 0 reads [] writes [@read] { launch.fetch "y" from @w }
  // expected-error@+2 {{verify-program: @y may use variable @w again before @assign has written it}}
  // expected-error@+1 {{verify-program: @z may use variable @w after @assign has written it}}
  launch.actor @assign on <0, cpu:0> stream 0 reads [@sum, @read] writes [@new] { launch.copy @sum to @w }
  launch.actor @z on <0, cpu:0> stream 0 reads [@new] writes [] { launch.fetch "z" from @w }
}
