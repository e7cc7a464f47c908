// RUN: penstock-opt %s -p launch-form-waves,verify-program --split-input-file | filecheck %s

!x = memref<16xf32>

// Calls of an actor that use none of each other's results become one, of a kernel with the
// stages of all: those of one kernel beside each other.

// CHECK-LABEL: launch.program @formed
launch.program @formed rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  launch.register @rb in @c0 at 128 slots 1 : !x
  launch.register @rc in @c0 at 192 slots 1 : !x
  launch.register @rd in @c0 at 256 slots 1 : !x
  // CHECK-NOT:  launch.kernel @twice
  // CHECK-NOT:  launch.kernel @square
  launch.kernel @twice target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  launch.kernel @square target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) {
    ^bb0(%p: f32, %q: f32):
      %r = arith.mulf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  // CHECK:      launch.kernel @wave_0 target "cpu" (%[[I:.+]]: memref<16xf32>, %[[O:.+]]: memref<16xf32>, %[[J:.+]]: memref<16xf32>, %[[P:.+]]: memref<16xf32>, %[[K:.+]]: memref<16xf32>, %[[Q:.+]]: memref<16xf32>)
  // CHECK-SAME:   cost = {bytes = 384 : i64, flops = 48 : i64, op = "op.add"}
  // CHECK-SAME:   members = array<i64: 2, 2, 2>
  // CHECK:        ins(%[[I]] : memref<16xf32>) outs(%[[O]] : memref<16xf32>)
  // CHECK:        ins(%[[J]] : memref<16xf32>) outs(%[[P]] : memref<16xf32>)
  // CHECK:        ins(%[[K]] : memref<16xf32>) outs(%[[Q]] : memref<16xf32>)
  // CHECK:      launch.actor @a on <0, cpu:0> stream 0 reads [@rx] writes [@ra, @rb, @rc] {
  // CHECK-NEXT:   launch.call @wave_0 [@rx, @rb, @rx, @ra, @rx, @rc]
  // CHECK-NEXT: }
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@rx] {
    launch.feed "x" to @rx
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@rx] writes [@ra, @rb, @rc] {
    launch.call @twice [@rx, @ra]
    launch.call @square [@rx, @rb]
    launch.call @twice [@rx, @rc]
  }
}

// -----

!x = memref<16xf32>

// What uses the result of another call is in no wave with it, nor is what may fail; what
// follows may be one.

// CHECK-LABEL: launch.program @apart
launch.program @apart rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  launch.register @rb in @c0 at 128 slots 1 : !x
  launch.register @rc in @c0 at 192 slots 1 : !x
  launch.register @rd in @c0 at 256 slots 1 : !x
  launch.kernel @twice target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  launch.kernel @fails target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.check"}} {
    %f = arith.constant false
    cf.assert %f, "it fails"
    "memref.copy"(%i, %o) : (!x, !x) -> ()
  }
  // CHECK:      launch.actor @a
  // CHECK-NEXT:   launch.call @twice [@rx, @ra]
  // CHECK-NEXT:   launch.call @fails [@rx, @rb] {no_wave = "assert: its kernel may fail"}
  // CHECK-NEXT:   launch.call @wave_0 [@ra, @rc, @rx, @rd]
  // CHECK-NEXT: }
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@rx] {
    launch.feed "x" to @rx
  }
  launch.actor @a on <0, cpu:0> stream 0 can_fail reads [@rx] writes [@ra, @rb, @rc, @rd] {
    launch.call @twice [@rx, @ra]
    launch.call @fails [@rx, @rb]
    launch.call @twice [@ra, @rc]
    launch.call @twice [@rx, @rd]
  }
  // CHECK:      launch.actor @b
  // CHECK-NEXT:   launch.call @twice [@ra, @re]
  // CHECK-NEXT:   launch.call @twice [@re, @rf] {no_wave = "bytes: it uses what the ones before write, or writes what they use"}
  launch.register @re in @c0 at 320 slots 1 : !x
  launch.register @rf in @c0 at 384 slots 1 : !x
  launch.actor @b on <0, cpu:0> stream 0 reads [@ra] writes [@re, @rf] {
    launch.call @twice [@ra, @re]
    launch.call @twice [@re, @rf]
  }
}

// -----

!x = memref<16xf32>

// Actors with one call stay as they are, whatever is next to them, and so does what is for
// another device or has a source.

// CHECK-LABEL: launch.program @alone
launch.program @alone rank 0 {
  launch.chunk @c0 on <0, host> size 512
  launch.register @rx in @c0 at 0 slots 1 : !x
  launch.register @ra in @c0 at 64 slots 1 : !x
  launch.register @rb in @c0 at 128 slots 1 : !x
  launch.register @rc in @c0 at 192 slots 1 : !x
  launch.register @rd in @c0 at 256 slots 1 : !x
  launch.kernel @twice target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  launch.kernel @own target "cpu" (%i: !x, %o: !x) attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.add"}, source = "def kernel"} {
    linalg.generic {indexing_maps = [affine_map<(d) -> (d)>, affine_map<(d) -> (d)>], iterator_types = ["parallel"]} ins(%i : !x) outs(%o : !x) {
    ^bb0(%p: f32, %q: f32):
      %r = arith.addf %p, %p : f32
      linalg.yield %r : f32
    }
  }
  // CHECK:      launch.actor @a
  // CHECK-NEXT:   launch.call @twice [@rx, @ra]
  // CHECK-NEXT: }
  // CHECK:        launch.call @own [@rx, @rb] {no_wave = "source: its kernel is not printed from a body of stages alone"}
  // CHECK-NEXT:   launch.call @twice [@rx, @rc]
  launch.actor @feed on <0, cpu:0> stream 1 reads [] writes [@rx] {
    launch.feed "x" to @rx
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [@rx] writes [@ra] {
    launch.call @twice [@rx, @ra]
  }
  launch.actor @b on <0, cpu:0> stream 0 can_fail reads [@rx] writes [@rb, @rc] {
    launch.call @own [@rx, @rb]
    launch.call @twice [@rx, @rc]
  }
}
