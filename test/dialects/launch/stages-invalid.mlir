// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// Of attributes without a prefix an upstream op in a kernel has only those of a stage.
launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%a: memref<4xf32>) {
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{linalg.fill: unknown attribute 'schedul', did you mean 'schedule'? (what is not ours has a dialect's prefix, such as 'acme.schedul')}}
    linalg.fill {schedul = 1 : i64} ins(%z : f32) outs(%a : memref<4xf32>)
  }
}

// -----

// An op inside of a stage has none.
launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%a: memref<4xf32>) {
    // expected-error@+1 {{arith.constant: unknown attribute 'schedule' (what is not ours has a dialect's prefix, such as 'acme.schedule')}}
    %z = arith.constant {schedule = "fast"} 0.0 : f32
    linalg.fill ins(%z : f32) outs(%a : memref<4xf32>)
  }
}

// -----

// A schedule is one for ops of this kind.
launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%a: memref<4xf32>) {
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{linalg.fill: #launch.windows<lanes 16, lines 8> is no schedule of linalg.fill}}
    linalg.fill {schedule = #launch.windows<lanes 16, lines 8>} ins(%z : f32) outs(%a : memref<4xf32>)
  }
}

// -----

launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%a: memref<4xf32>) {
    %z = arith.constant 0 : index
    %o = arith.constant 1 : index
    // expected-error@+1 {{scf.parallel: a schedule is an attribute such as #launch.contraction, got "fast"}}
    "scf.parallel"(%z, %o, %o) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
      scf.reduce
    }) {schedule = "fast"} : (index, index, index) -> ()
  }
}

// -----

launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%a: memref<4xf32>) {
    %z = arith.constant 0.0 : f32
    // expected-error@+1 {{linalg.fill: why there is no schedule is a text, got 1 : i64}}
    linalg.fill {no_schedule = 1 : i64} ins(%z : f32) outs(%a : memref<4xf32>)
  }
}

// -----

// Notes of others are as they like.
launch.program @p rank 0 {
  launch.kernel @k target "cpu" (%a: memref<4xf32>) {
    %z = arith.constant {acme.note} 0.0 : f32
    linalg.fill {acme.note = 1 : i64} ins(%z : f32) outs(%a : memref<4xf32>)
  }
}
