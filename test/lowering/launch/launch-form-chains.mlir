// RUN: penstock-opt %s -p launch-form-chains,verify-program --split-input-file | filecheck %s

!x = memref<16xf32>

// Actors that follow each other on a stream become one, whose kernel has the stages of
// all on the places that they use. What only they use is dropped, and who read it with
// what lies there now reads that alone.
// CHECK-LABEL: launch.program @formed
launch.program @formed rank 0 {
  launch.chunk @c0 on <0, host> size 256
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  // CHECK-NOT: @rb
  launch.register @rb in @c0 at 0 slots 1 : !x
  launch.register @rc in @c0 at 0 slots 1 : !x
  launch.kernel @twice target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  launch.kernel @square target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 16 : i64, op = "op.mul"}} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>], iterator_types = ["parallel"]} outs(%o : !x) {
    ^bb0(%q: f32):
      %r = arith.mulf %q, %q : f32
      linalg.yield %r : f32
    }
  }
  launch.control @"out -> x" slots 1 initial 1
  launch.actor @x on <0, cpu:0> stream 0 reads [@"out -> x"] writes [@rx] {
    launch.feed "x" to @rx
  }
  // CHECK:      launch.kernel @chain_0 target "cpu" (%[[X:.+]]: memref<16xf32>, %[[A:.+]]: memref<16xf32>)
  // CHECK-SAME:   cost = {bytes = 320 : i64, flops = 48 : i64, op = "op.add, op.mul"}
  // CHECK:        ins(%[[X]] : memref<16xf32>) outs(%[[A]] : memref<16xf32>)
  // CHECK:        ins(%[[A]] : memref<16xf32>) outs(%[[X]] : memref<16xf32>)
  // CHECK:        linalg.generic {{.*}} outs(%[[X]] : memref<16xf32>)
  // CHECK:      launch.actor @a..c on <0, cpu:0> stream 0 reads [@rx] writes [@ra, @rc] views [@rx as @rc] attributes {chain = ["a", "b", "c"]} {
  // CHECK-NEXT:   launch.call @chain_0 [@rc, @ra]
  launch.actor @a on <0, cpu:0> stream 0 reads [@rx] writes [@ra] {
    launch.call @twice [@rx, @ra]
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@ra] writes [@rb] {
    launch.call @twice [@ra, @rb]
  }
  launch.actor @c on <0, cpu:0> stream 0 reads [@rb] writes [@rc] views [@rb as @rc] {
    launch.call @square [@rc]
  }
  // CHECK: launch.actor @out on <0, cpu:0> stream 0 reads [@rc] writes [@"out -> x"]
  launch.actor @out on <0, cpu:0> stream 0 reads [@rb, @rc] writes [@"out -> x"] {
    launch.fetch "c" from @rc
  }
}

// -----

!x = memref<16xf32>

// Not if something that they write is used over some of its bytes, if others use what the
// next one writes over, or if they come between; nor what is large, or has several slots.
// CHECK-LABEL: launch.program @apart
launch.program @apart rank 0 {
  launch.chunk @c0 on <0, host> size 1024
  launch.register @ra in @c0 at 0 slots 1 : !x
  launch.register @rb in @c0 at 64 slots 1 : !x
  launch.register @rc in @c0 at 0 slots 1 : memref<8xf32>
  launch.register @rd in @c0 at 512 slots 1 : !x
  launch.register @re in @c0 at 128 slots 1 : !x
  launch.register @rf in @c0 at 192 slots 1 : !x
  launch.register @rg in @c0 at 256 slots 2 : !x
  launch.control @"b -> c" slots 1
  launch.control @"out -> d" slots 1
  launch.control @"d -> e" slots 1
  launch.control @"out -> a" slots 1 initial 1
  launch.kernel @fill target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  launch.kernel @copy target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 0 : i64, op = "op.copy"}} {
    "memref.copy"(%i, %o) : (!x, !x) -> ()
  }
  launch.kernel @half target "cpu" (%o: memref<8xf32>) attributes {cost = {bytes = 32 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<8xf32>)
  }
  launch.kernel @large target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 32016 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  // CHECK: launch.actor @a..b
  launch.actor @a on <0, cpu:0> stream 0 reads [@"out -> a"] writes [@ra] {
    launch.call @fill [@ra]
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@ra] writes [@rb, @"b -> c"] {
    launch.call @copy [@ra, @rb]
  }
  // CHECK: launch.actor @c {{.*}}no_chain = "bytes: it uses some of @ra, or as another type"
  launch.actor @c on <0, cpu:0> stream 0 reads [@"b -> c"] writes [@rc] {
    launch.call @half [@rc]
  }
  launch.actor @out on <0, cpu:0> stream 1 reads [@rb, @rc] writes [@"out -> d", @"out -> a"] {
    launch.fetch "b" from @rb
  }
  // CHECK: launch.actor @d {{.*}}no_chain = "order: others are between it and the ones before"
  launch.actor @d on <0, cpu:0> stream 0 reads [@"out -> d"] writes [@rd, @"d -> e"] {
    launch.call @fill [@rd]
  }
  // CHECK-DAG: launch.actor @e {{.*}}no_chain = "hand-over: another stream waits for the one before"
  launch.actor @other on <0, cpu:0> stream 1 reads [@rd] writes [] {
    launch.fetch "d" from @rd
  }
  launch.actor @e on <0, cpu:0> stream 0 reads [@"d -> e"] writes [@re] {
    launch.call @fill [@re]
  }
  // CHECK-DAG: launch.actor @f {{.*}}no_chain = "size: its kernel takes 2001 ns, more than 2000"
  launch.actor @f on <0, cpu:0> stream 0 reads [] writes [@rf] {
    launch.call @large [@rf]
  }
  // CHECK-DAG: launch.actor @g {{.*}}no_chain = "slots: @rg has several"
  launch.actor @g on <0, cpu:0> stream 0 reads [] writes [@rg] {
    launch.call @fill [@rg]
  }
}

// -----

!x = memref<16xf32>

// What shows bytes without a step is no member.
// CHECK-LABEL: launch.program @shown
launch.program @shown rank 0 {
  launch.chunk @c0 on <0, host> size 256
  launch.register @ra in @c0 at 0 slots 1 : !x
  launch.register @rb in @c0 at 64 slots 1 : !x
  launch.register @rv in @c0 at 64 slots 1 : !x
  launch.kernel @fill target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  // CHECK: launch.actor @a {{.*}}no_chain = "alone: nothing small is next"
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@ra] {
    launch.call @fill [@ra]
  }
  launch.actor @v on <0, cpu:0> stream 1 reads [@"b -> v"] writes [@rv] {
    launch.feed "v" to @rv
  }
  // CHECK: launch.actor @b {{.*}}no_chain = "step: it has a result that its call does not name"
  launch.actor @b on <0, cpu:0> stream 0 reads [@ra, @rv] writes [@rb, @rc, @"b -> v"] views [@rv as @rb] {
    launch.call @fill [@rc]
  }
  launch.control @"b -> v" slots 1 initial 1
  launch.register @rc in @c0 at 128 slots 1 : !x
}

// -----

!x = memref<16xf32>

// In a list that is in no order nothing is changed.
// CHECK-LABEL: launch.program @backwards
launch.program @backwards rank 0 {
  launch.chunk @c0 on <0, host> size 256
  launch.register @ra in @c0 at 0 slots 1 : !x
  launch.register @rb in @c0 at 64 slots 1 : !x
  launch.control @"b -> a" slots 1
  launch.kernel @fill target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  // CHECK: launch.actor @a {{.*}}no_chain = "list: an actor comes after one that is listed behind it"
  launch.actor @a on <0, cpu:0> stream 0 reads [@"b -> a"] writes [@ra] {
    launch.call @fill [@ra]
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [] writes [@rb, @"b -> a"] {
    launch.call @fill [@rb]
  }
}
