// RUN: penstock-opt %s -t numba --split-input-file --verify-diagnostics
// RUN: not penstock-opt %S/../../examples/digits.mlir -t numba 2>&1 | filecheck %s --check-prefix=JOB

// JOB: {{^.*}}digits.mlir: error: target numba: no launch program: run a pipeline first

// expected-error@+1 {{target numba: kernel @k: unknown target 'tpu', known are: cpu, cuda}}
launch.kernel @k target "tpu" (%a: memref<4xf32>) {
}

// -----

// expected-error@+1 {{target numba: kernel @k: elements of tf32 have no source}}
launch.kernel @k target "cpu" (%a: memref<4xtf32>) {
}

// -----

// All that is wrong is said at once.
launch.kernel @k target "cpu" (%a: memref<4xi32>, %b: memref<4xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{target numba: kernel @k: memref.load is no stage}}
  %x = memref.load %a[%c0] : memref<4xi32>
  "scf.parallel"(%c0, %c1, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    %y = memref.load %a[%i] : memref<4xi32>
    // expected-error@+1 {{target numba: kernel @k: math.ctpop (i32) -> (i32) has no source}}
    %z = math.ctpop %y : i32
    memref.store %z, %a[%i] : memref<4xi32>
    scf.reduce
  }) : (index, index, index) -> ()
  // expected-error@+1 {{target numba: kernel @k: linalg.generic with reductions should write one memref}}
  linalg.generic {indexing_maps = [affine_map<(i) -> (0)>, affine_map<(i) -> (i)>], iterator_types = ["reduction"]} outs(%a, %b : memref<4xi32>, memref<4xi32>) {
  ^bb0(%p: i32, %q: i32):
    linalg.yield %p, %q : i32, i32
  }
}

// -----

launch.kernel @k target "cpu" (%a: memref<4xf32>, %o: memref<4xf32>) {
  // expected-error@+1 {{target numba: kernel @k: the map of operand 0 is not linear: (d0) -> ((d0 floordiv 2))}}
  linalg.generic {indexing_maps = [affine_map<(i) -> (i floordiv 2)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a : memref<4xf32>) outs(%o : memref<4xf32>) {
  ^bb0(%x: f32, %s: f32):
    linalg.yield %x : f32
  }
}

// -----

launch.kernel @k target "cpu" (%a: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  // expected-error@+1 {{target numba: kernel @k: scf.parallel with reductions has no source}}
  %r = "scf.parallel"(%c0, %c4, %c1, %z) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>}> ({
  ^bb0(%i: index):
    scf.reduce(%z : f32) {
    ^bb0(%p: f32, %q: f32):
      scf.reduce.return %p : f32
    }
  }) : (index, index, index, f32) -> (f32)
}

// -----

launch.kernel @k target "cuda" (%a: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{target numba: kernel @k: arith.addi is no stage}}
  %c2 = arith.addi %c1, %c1 : index
  // expected-error@+1 {{target numba: kernel @k: the bounds of scf.parallel should be constants}}
  "scf.parallel"(%c0, %c2, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    scf.reduce
  }) : (index, index, index) -> ()
}

// -----

// expected-error@+1 {{target numba: members of a wave take its 2 arguments, got array<i64: 1, 2>}}
launch.kernel @k target "cpu" (%a: memref<4xf32>, %b: memref<4xf32>) attributes {members = array<i64: 1, 2>} {
}

// -----

launch.kernel @k target "cpu" (%a: memref<4xf32>, %b: memref<4xf32>) attributes {members = array<i64: 1, 1>} {
  // expected-error@+1 {{target numba: memref.copy uses arguments of 2 members of a wave}}
  "memref.copy"(%a, %b) : (memref<4xf32>, memref<4xf32>) -> ()
}

// -----

// Schedules of contractions are those of kernel.contract.
launch.kernel @k target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>) {
  // expected-error@+1 {{target numba: kernel @k: linalg.matmul cannot be computed by #launch.contraction<outer, tile [4, 1, 16], block [4, 8]> here, as it is no kernel.contract: raise-linalg-to-kernel has not run}}
  linalg.matmul {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 8]>} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
}
