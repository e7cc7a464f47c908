// RUN: penstock-opt %s -p launch-form-waves,verify-program --split-input-file | filecheck %s

!x = memref<16xf32>

// Actors whose kernels use none of each other's results become one, which calls a kernel
// with the phases of all; the orders between them are dropped, others are kept. What has
// to come after one of them comes after all.
// CHECK-LABEL: launch.program @formed
launch.program @formed rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  launch.register @rb in @c0 at 128 slots 1 : !x
  launch.register @rc in @c0 at 192 slots 1 : !x
  // CHECK-NOT: @"a -> b"
  launch.control @"a -> b" slots 1
  // CHECK: launch.control @"b -> c"
  launch.control @"b -> c" slots 1
  // CHECK-NOT: @"b -> a"
  launch.control @"b -> a" slots 1 initial 1
  // CHECK-NOT: launch.kernel @twice
  launch.kernel @twice target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  // CHECK:      launch.kernel @wave_0 target "cpu" (%[[I:.+]]: memref<16xf32>, %[[O:.+]]: memref<16xf32>, %[[J:.+]]: memref<16xf32>, %[[P:.+]]: memref<16xf32>)
  // CHECK-SAME:   cost = {bytes = 256 : i64, flops = 32 : i64, op = "op.add"}
  // CHECK-SAME:   members = array<i64: 2, 2>
  // CHECK:        ins(%[[I]] : memref<16xf32>) outs(%[[O]] : memref<16xf32>)
  // CHECK:        ins(%[[J]] : memref<16xf32>) outs(%[[P]] : memref<16xf32>)
  // CHECK:      launch.actor @feed
  // CHECK:      launch.actor @done {{.*}} reads []
  // CHECK:      launch.actor @a..b on <0, cpu:0> stream 0 reads [@rx] writes [@ra, @rb, @"b -> c"] attributes {wave = ["a", "b"]} {
  // CHECK-NEXT:   launch.call @wave_0 [@rx, @ra, @rx, @rb]
  // CHECK:      launch.actor @out
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@rx] {
    launch.feed "x" to @rx
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@rx, @"b -> a"] writes [@ra, @"a -> b"] {
    launch.call @twice [@rx, @ra]
  }
  launch.actor @out on <0, cpu:0> stream 1 reads [@ra] writes [] {
    launch.fetch "a" from @ra
  }
  launch.actor @done on <0, cpu:0> stream 1 reads [] writes [@rc] {
    launch.feed "c" to @rc
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@rx, @"a -> b"] writes [@rb, @"b -> c", @"b -> a"] {
    launch.call @twice [@rx, @rb]
  }
  launch.actor @c on <0, cpu:0> stream 1 reads [@rb, @rc, @"b -> c"] writes [] {
    launch.fetch "b" from @rb
  }
}

// -----

!x = memref<16xf32>

// What uses the result of another one is in no wave with it, nor what comes after one that
// does; nor what is large, or may fail, or does not tell its cost, or is not for cpu.
// CHECK-LABEL: launch.program @apart
launch.program @apart rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @ra in @c0 at 0 slots 1 : !x
  launch.register @rb in @c0 at 64 slots 1 : !x
  launch.register @rc in @c0 at 128 slots 1 : !x
  launch.register @rd in @c0 at 192 slots 1 : !x
  launch.register @re in @c0 at 256 slots 1 : !x
  launch.register @rf in @c0 at 320 slots 1 : !x
  launch.register @rg in @c0 at 384 slots 1 : !x
  launch.kernel @fill target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  launch.kernel @copy target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 0 : i64, op = "op.copy"}} {
    "memref.copy"(%i, %o) : (!x, !x) -> ()
  }
  launch.kernel @large target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 160016 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  launch.kernel @fails target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    "scf.parallel"(%c0, %c1, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
      %t = arith.constant true
      cf.assert %t , "no"
      scf.reduce
    }) : (index, index, index) -> ()
  }
  launch.kernel @silent target "cpu" (%o: !x) {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  launch.kernel @given target "cpu" (%o: !x) attributes {source = "pass", cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  // CHECK: launch.actor @a {{.*}}no_wave = "alone: nothing small is next"
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@ra] {
    launch.call @fill [@ra]
  }
  // CHECK: launch.actor @b {{.*}}no_wave = "bytes: it uses what the ones before write, or writes what they use"
  launch.actor @b on <0, cpu:0> stream 0 reads [@ra] writes [@rb] {
    launch.call @copy [@ra, @rb]
  }
  // CHECK: launch.actor @out {{.*}} writes [@"out -> c"] {
  launch.control @"out -> c" slots 1
  launch.actor @out on <0, cpu:0> stream 1 reads [@rb] writes [@"out -> c"] {
    launch.fetch "b" from @rb
  }
  // CHECK: launch.actor @c {{.*}}no_wave = "order: others are between it and the ones before"
  launch.actor @c on <0, cpu:0> stream 0 reads [@"out -> c"] writes [@rc] {
    launch.call @fill [@rc]
  }
  // CHECK: launch.actor @d {{.*}}no_wave = "size: its kernel takes 10001 ns, more than 10000"
  launch.actor @d on <0, cpu:0> stream 0 reads [] writes [@rd] {
    launch.call @large [@rd]
  }
  // CHECK: launch.actor @e {{.*}}no_wave = "assert: its kernel may fail"
  launch.actor @e on <0, cpu:0> stream 0 can_fail reads [] writes [@re] {
    launch.call @fails [@re]
  }
  // CHECK: launch.actor @f {{.*}}no_wave = "cost: its kernel does not tell"
  launch.actor @f on <0, cpu:0> stream 0 reads [] writes [@rf] {
    launch.call @silent [@rf]
  }
  // CHECK: launch.actor @g {{.*}}no_wave = "source: its kernel is not printed from a body of phases alone"
  launch.actor @g on <0, cpu:0> stream 0 can_fail reads [] writes [@rg] {
    launch.call @given [@rg]
  }
}

// -----

!x = memref<16xf32>

// Nor what is on another stream, for another device, or copies what lies there already.
// CHECK-LABEL: launch.program @elsewhere
launch.program @elsewhere rank 0 {
  launch.chunk @c0 on <0, host> size 256
  launch.chunk @c1 on <0, device cuda:0> size 256
  launch.register @ra in @c0 at 0 slots 1 : !x
  launch.register @rb in @c0 at 64 slots 1 : !x
  launch.register @rc in @c1 at 0 slots 1 : !x
  launch.register @rp in @c0 at 128 slots 1 : !x
  launch.register @rq in @c0 at 128 slots 1 : !x
  launch.kernel @fill target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  launch.kernel @fill_cuda target "cuda" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  launch.kernel @copy target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 0 : i64, op = "op.copy"}} {
    "memref.copy"(%i, %o) : (!x, !x) -> ()
  }
  // CHECK: launch.actor @a {{.*}}no_wave = "alone: nothing small is next"
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@ra] {
    launch.call @fill [@ra]
  }
  // CHECK: launch.actor @b {{.*}}no_wave = "alone: nothing small is next"
  launch.actor @b on <0, cpu:0> stream 1 reads [] writes [@rb] {
    launch.call @fill [@rb]
  }
  // CHECK: launch.actor @c {{.*}}no_wave = "target: its kernel is for cuda"
  launch.actor @c on <0, cuda:0> stream 2 reads [] writes [@rc] {
    launch.call @fill_cuda [@rc]
  }
  launch.actor @p on <0, cpu:0> stream 1 reads [] writes [@rp] {
    launch.feed "p" to @rp
  }
  // CHECK: launch.actor @q {{.*}}no_wave = "step: it is not done in each act, or writes over what it reads"
  launch.actor @q on <0, cpu:0> stream 0 reads [@rp] writes [@rq] views [@rp as @rq] {
    launch.call @copy [@rp, @rq] {unchanged = [@rp]}
  }
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
  // CHECK: launch.actor @a {{.*}}no_wave = "list: an actor comes after one that is listed behind it"
  launch.actor @a on <0, cpu:0> stream 0 reads [@"b -> a"] writes [@ra] {
    launch.call @fill [@ra]
  }
  // CHECK: launch.actor @b
  launch.actor @b on <0, cpu:0> stream 0 reads [] writes [@rb, @"b -> a"] {
    launch.call @fill [@rb]
  }
}
