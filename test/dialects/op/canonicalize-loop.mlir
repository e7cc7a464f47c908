// RUN: penstock-opt -p job-clean %s | filecheck %s

// Without iterations there is what is carried at first.

// CHECK-LABEL: job.job @never
// CHECK-NOT:   op.loop
// CHECK:       job.output "b", %a
// CHECK-NEXT:  job.output "s", %{{.*}} : tensor<0x4xf32>
job.job @never placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %b, %s = op.loop 0 carries(%a : tensor<4xf32>) -> tensor<4xf32>, tensor<0x4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    %d = op.exp %c : tensor<4xf32> -> tensor<4xf32>
    op.yield %d, %c : tensor<4xf32>, tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
  job.output "s", %s : tensor<0x4xf32>
}

// A condition that is false at first is as good; a count that may be wrong is not.

// CHECK-LABEL: job.job @false
// CHECK:       [[ZEROS:%.*]] = op.constant dense<0.000000e+00> : tensor<3xf32>
// CHECK:       [[MADE:%.*]] = op.constant dense<0> : tensor<i64>
// CHECK-NOT:   while(%f) made
// CHECK:       op.loop up to 3 count(%n) while
// CHECK:       job.output "s", [[ZEROS]]
// CHECK:       job.output "m", [[MADE]]
job.job @false placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %a = job.input "a" : tensor<f32>
  %f = op.constant dense<false> : tensor<i1>
  %b, %s, %m = op.loop up to 3 while(%f) reads(%a : tensor<f32>) made
      -> tensor<i1>, tensor<3xf32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %d: tensor<f32>):
    op.yield %c, %d : tensor<i1>, tensor<f32>
  }
  %e = op.loop up to 3 count(%n) while(%f) -> tensor<i1> {
  ^bb0(%i_1: tensor<i64>, %g: tensor<i1>):
    op.yield %g : tensor<i1>
  }
  job.output "s", %s : tensor<3xf32>
  job.output "m", %m : tensor<i64>
  job.output "e", %e : tensor<i1>
}

// One iteration is its ops.

// CHECK-LABEL: job.job @once
// CHECK:       %[[X:.*]] = op.reshape %xs to [4]
// CHECK-NEXT:  %d = op.add %a, %[[X]]
// CHECK-NEXT:  %s = op.reshape %d to [1, 4]
// CHECK-NEXT:  job.output "b", %d
job.job @once placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %xs = job.input "xs" : tensor<1x4xf32>
  %b, %s = op.loop 1 carries(%a : tensor<4xf32>) slices(%xs : tensor<1x4xf32>)
      -> tensor<4xf32>, tensor<1x4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>, %x: tensor<4xf32>):
    %d = op.add %c, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    op.yield %d, %d : tensor<4xf32>, tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
  job.output "s", %s : tensor<1x4xf32>
}

// A count that is a constant is known, if it is one that is allowed, and nothing has
// the extent of another maximum.

// CHECK-LABEL: job.job @counts
// CHECK:       [[TWO:%.*]] = op.constant dense<2> : tensor<i64>
// CHECK:       op.loop 2 carries(%a : tensor<f32>) -> tensor<f32>
// CHECK:       op.loop up to 3 count([[TWO]])
// CHECK:       op.loop up to 1 count([[TWO]])
// CHECK:       job.output "m", [[TWO]]
job.job @counts placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %n = op.constant dense<2> : tensor<i64>
  %b, %m = op.loop up to 3 count(%n) carries(%a : tensor<f32>) made
      -> tensor<f32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    %d = op.exp %c : tensor<f32> -> tensor<f32>
    op.yield %d : tensor<f32>
  }
  %e, %s = op.loop up to 3 count(%n) carries(%b : tensor<f32>)
      -> tensor<f32>, tensor<3xf32> {
  ^bb0(%i_1: tensor<i64>, %f: tensor<f32>):
    %g = op.exp %f : tensor<f32> -> tensor<f32>
    op.yield %g, %f : tensor<f32>, tensor<f32>
  }
  %h = op.loop up to 1 count(%n) carries(%e : tensor<f32>) -> tensor<f32> {
  ^bb0(%i_2: tensor<i64>, %j: tensor<f32>):
    %k = op.exp %j : tensor<f32> -> tensor<f32>
    op.yield %k : tensor<f32>
  }
  job.output "h", %h : tensor<f32>
  job.output "s", %s : tensor<3xf32>
  job.output "m", %m : tensor<i64>
}

// Invariant ops run before the loop, also those of constants and of a loop around it.

// CHECK-LABEL: job.job @invariant
// CHECK:       op.mul %w, %{{.*}} : tensor<4xf32>, tensor<f32>
// CHECK-NEXT:  [[E:%.*]] = op.exp
// CHECK-NEXT:  %b = op.loop 3 carries(%a : tensor<4xf32>) reads([[E]] : tensor<4xf32>)
// CHECK-NOT:   op.exp
// CHECK:       op.loop 2
// CHECK-NOT:   op.exp
// CHECK:       job.output
job.job @invariant placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %w = job.input "w" : tensor<4xf32>
  %b = op.loop 3 carries(%a : tensor<4xf32>) reads(%w : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>, %v: tensor<4xf32>):
    %two = op.constant dense<2.0> : tensor<f32>
    %u = op.mul %v, %two : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
    %f = op.loop 2 carries(%c : tensor<4xf32>) reads(%u : tensor<4xf32>)
        -> tensor<4xf32> {
    ^bb0(%j: tensor<i64>, %d: tensor<4xf32>, %t: tensor<4xf32>):
      %e = op.exp %t : tensor<4xf32> -> tensor<4xf32>
      %g = op.sub %d, %e : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
      op.yield %g : tensor<4xf32>
    }
    op.yield %f : tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
}

// An op that can fail stays where its iteration may never be made.

// CHECK-LABEL: job.job @failing
// CHECK:       op.gather
// CHECK-NEXT:  op.loop 3
// CHECK:       op.loop up to 3
// CHECK:       op.gather
job.job @failing placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %t = job.input "t" : tensor<5xi64>
  %b = op.loop 3 carries(%n : tensor<i64>) reads(%t, %n : tensor<5xi64>, tensor<i64>)
      -> tensor<i64> {
  ^bb0(%i: tensor<i64>, %c: tensor<i64>, %u: tensor<5xi64>, %m: tensor<i64>):
    %d = op.gather %u[%m] axis 0 : tensor<5xi64>, tensor<i64> -> tensor<i64>
    %e = op.add %c, %d : tensor<i64>, tensor<i64> -> tensor<i64>
    op.yield %e : tensor<i64>
  }
  %f = op.loop up to 3 count(%n) carries(%b : tensor<i64>)
      reads(%t, %n : tensor<5xi64>, tensor<i64>) -> tensor<i64> {
  ^bb0(%i_1: tensor<i64>, %c_1: tensor<i64>, %u_1: tensor<5xi64>, %m_1: tensor<i64>):
    %d_1 = op.gather %u_1[%m_1] axis 0 : tensor<5xi64>, tensor<i64> -> tensor<i64>
    %e_1 = op.add %c_1, %d_1 : tensor<i64>, tensor<i64> -> tensor<i64>
    op.yield %e_1 : tensor<i64>
  }
  job.output "f", %f : tensor<i64>
}

// Values that no result needs are neither carried nor stacked, and those that are the
// same in each iteration are read; what is read twice is one operand, what is not
// read is none.

// CHECK-LABEL: job.job @unread
// CHECK:       %b = op.loop 3 carries(%a : tensor<f32>) slices(%xs : tensor<3xf32>) reads(%w : tensor<f32>) -> tensor<f32> {
// CHECK-NEXT:  ^bb0(%{{.*}}: tensor<i64>, [[C:%.*]]: tensor<f32>, [[X:%.*]]: tensor<f32>, [[W:%.*]]: tensor<f32>):
// CHECK-NEXT:    [[P:%.*]] = op.mul [[C]], [[W]]
// CHECK-NEXT:    [[Q:%.*]] = op.add [[P]], [[W]]
// CHECK-NEXT:    [[R:%.*]] = op.add [[Q]], [[X]]
// CHECK-NEXT:    [[S:%.*]] = op.sub [[R]], [[X]]
// CHECK-NEXT:    op.yield [[S]] : tensor<f32>
// CHECK:       job.output "b", %b
// CHECK-NEXT:  job.output "same", %w
job.job @unread placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %w = job.input "w" : tensor<f32>
  %xs = job.input "xs" : tensor<3xf32>
  %zs = job.input "zs" : tensor<3xf32>
  %b, %dead, %same, %s = op.loop 3 carries(%a, %a, %w : tensor<f32>, tensor<f32>, tensor<f32>)
      slices(%xs, %zs, %xs : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
      reads(%w, %a : tensor<f32>, tensor<f32>)
      -> tensor<f32>, tensor<f32>, tensor<f32>, tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>, %d: tensor<f32>, %e: tensor<f32>,
       %x: tensor<f32>, %z: tensor<f32>, %y: tensor<f32>, %v: tensor<f32>, %u: tensor<f32>):
    %f = op.mul %c, %e : tensor<f32>, tensor<f32> -> tensor<f32>
    %g = op.add %f, %v : tensor<f32>, tensor<f32> -> tensor<f32>
    %h = op.add %g, %x : tensor<f32>, tensor<f32> -> tensor<f32>
    %k = op.sub %h, %y : tensor<f32>, tensor<f32> -> tensor<f32>
    %l = op.add %d, %z : tensor<f32>, tensor<f32> -> tensor<f32>
    op.yield %k, %l, %e, %l : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
  job.output "b", %b : tensor<f32>
  job.output "same", %same : tensor<f32>
}

// Two values that are carried by way of each other are both needed; a condition is.

// CHECK-LABEL: job.job @needed
// CHECK:       op.loop 3 carries(%a, %b : tensor<f32>, tensor<f32>)
// CHECK:       op.loop up to 3 while(%go) carries(%a : tensor<f32>)
job.job @needed placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %b = job.input "b" : tensor<f32>
  %go = job.input "go" : tensor<i1>
  %c, %d = op.loop 3 carries(%a, %b : tensor<f32>, tensor<f32>)
      -> tensor<f32>, tensor<f32> {
  ^bb0(%i: tensor<i64>, %e: tensor<f32>, %f: tensor<f32>):
    op.yield %f, %e : tensor<f32>, tensor<f32>
  }
  %end, %g, %h = op.loop up to 3 while(%go) carries(%a, %b : tensor<f32>, tensor<f32>)
      -> tensor<i1>, tensor<f32>, tensor<f32> {
  ^bb0(%i_1: tensor<i64>, %go_1: tensor<i1>, %j: tensor<f32>, %k: tensor<f32>):
    %l = op.exp %j : tensor<f32> -> tensor<f32>
    %m = op.less %l, %j : tensor<f32>, tensor<f32> -> tensor<i1>
    op.yield %m, %l, %j : tensor<i1>, tensor<f32>, tensor<f32>
  }
  job.output "c", %c : tensor<f32>
  job.output "g", %g : tensor<f32>
}

// Slices that are stacked again are their tensor, where all iterations are made.

// CHECK-LABEL: job.job @stacked
// CHECK:       op.loop up to 3
// CHECK:       job.output "s", %xs
job.job @stacked placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %xs = job.input "xs" : tensor<3xf32>
  %s = op.loop 3 backward slices(%xs : tensor<3xf32>) -> tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<f32>):
    op.yield %x : tensor<f32>
  }
  %t = op.loop up to 3 count(%n) slices(%xs : tensor<3xf32>) -> tensor<3xf32> {
  ^bb0(%i_1: tensor<i64>, %y: tensor<f32>):
    op.yield %y : tensor<f32>
  }
  job.output "s", %s : tensor<3xf32>
  job.output "t", %t : tensor<3xf32>
}

// A value that is stacked twice is one result.

// CHECK-LABEL: job.job @twice
// CHECK:       [[S:%.*]] = op.loop up to 3
// CHECK:       job.output "s", [[S]]
// CHECK-NEXT:  job.output "t", [[S]]
job.job @twice placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %xs = job.input "xs" : tensor<3xf32>
  %s, %t = op.loop up to 3 count(%n) slices(%xs : tensor<3xf32>)
      -> tensor<3xf32>, tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<f32>):
    %e = op.exp %x : tensor<f32> -> tensor<f32>
    op.yield %e, %e : tensor<f32>, tensor<f32>
  }
  job.output "s", %s : tensor<3xf32>
  job.output "t", %t : tensor<3xf32>
}

// Products of slices with one matrix are one product.

// CHECK-LABEL: job.job @products
// CHECK:       [[ROWS:%.*]] = op.reshape %xs to [10, 3]
// CHECK-NEXT:  [[ALL:%.*]] = op.matmul [[ROWS]], %w
// CHECK-NEXT:  [[PS:%.*]] = op.reshape [[ALL]] to [5, 2, 4]
// CHECK-NEXT:  [[VS:%.*]] = op.reshape %vs to [5, 3]
// CHECK-NEXT:  [[GEMM:%.*]] = op.gemm [[VS]], %w, %c
// CHECK-NEXT:  [[QS:%.*]] = op.reshape [[GEMM]] to [5, 1, 4]
// CHECK-NEXT:  op.loop 5 carries(%h : tensor<2x4xf32>) slices([[PS]], [[QS]] : tensor<5x2x4xf32>, tensor<5x1x4xf32>)
// CHECK-NOT:   op.matmul
// CHECK:       job.output
job.job @products placement <cpu, [0:0]> {
  %h = job.input "h" : tensor<2x4xf32>
  %xs = job.input "xs" : tensor<5x2x3xf32>
  %vs = job.input "vs" : tensor<5x1x3xf32>
  %w = job.input "w" : tensor<3x4xf32>
  %c = job.input "c" : tensor<4xf32>
  %b = op.loop 5 carries(%h : tensor<2x4xf32>)
      slices(%xs, %vs : tensor<5x2x3xf32>, tensor<5x1x3xf32>)
      reads(%w, %c : tensor<3x4xf32>, tensor<4xf32>) -> tensor<2x4xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<2x4xf32>, %x: tensor<2x3xf32>, %v: tensor<1x3xf32>,
       %u: tensor<3x4xf32>, %d: tensor<4xf32>):
    %p = op.matmul %x, %u : tensor<2x3xf32>, tensor<3x4xf32> -> tensor<2x4xf32>
    %q = op.add %g, %p : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
    %r = op.gemm %v, %u, %d : tensor<1x3xf32>, tensor<3x4xf32>, tensor<4xf32> -> tensor<1x4xf32>
    %s = op.add %q, %r : tensor<2x4xf32>, tensor<1x4xf32> -> tensor<2x4xf32>
    op.yield %s : tensor<2x4xf32>
  }
  job.output "b", %b : tensor<2x4xf32>
}

// Not those of which perhaps only some are made, nor products with something else.

// CHECK-LABEL: job.job @few
// CHECK:       op.loop up to 5
// CHECK:       op.matmul
// CHECK:       op.loop 5
// CHECK:       op.matmul
job.job @few placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %h = job.input "h" : tensor<2x3xf32>
  %xs = job.input "xs" : tensor<5x3x3xf32>
  %w = job.input "w" : tensor<3x3xf32>
  %b = op.loop up to 5 count(%n) slices(%xs : tensor<5x3x3xf32>)
      reads(%w : tensor<3x3xf32>) -> tensor<5x3x3xf32> {
  ^bb0(%i: tensor<i64>, %x: tensor<3x3xf32>, %u: tensor<3x3xf32>):
    %p = op.matmul %x, %u : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
    op.yield %p : tensor<3x3xf32>
  }
  %c = op.loop 5 carries(%h : tensor<2x3xf32>) slices(%xs : tensor<5x3x3xf32>)
      -> tensor<2x3xf32> {
  ^bb0(%i_1: tensor<i64>, %g: tensor<2x3xf32>, %x_1: tensor<3x3xf32>):
    %q = op.matmul %g, %x_1 : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
    op.yield %q : tensor<2x3xf32>
  }
  job.output "b", %b : tensor<5x3x3xf32>
  job.output "c", %c : tensor<2x3xf32>
}

// A loop that says how its results lie keeps them.

// CHECK-LABEL: job.job @laid
// CHECK:       op.loop 3 carries(%a, %a : tensor<f32>, tensor<f32>)
job.job @laid placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %b, %c = op.loop 3 carries(%a, %a : tensor<f32>, tensor<f32>) -> tensor<f32>, tensor<f32>
      attributes {max_shape = [array<i64>]} {
  ^bb0(%i: tensor<i64>, %d: tensor<f32>, %e: tensor<f32>):
    %f = op.exp %d : tensor<f32> -> tensor<f32>
    %g = op.exp %e : tensor<f32> -> tensor<f32>
    op.yield %f, %g : tensor<f32>, tensor<f32>
  }
  job.output "b", %b : tensor<f32>
}

// The ops of the only iteration have the slots that the loop asks for.

// CHECK-LABEL: job.job @slots
// CHECK:       %[[D:.+]] = op.exp %a {slots = 2 : i64}
// CHECK:       op.reshape %a to [1, 4] {slots = 2 : i64}
// CHECK:       job.output "b", %[[D]]
job.job @slots placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %b, %s = op.loop 1 carries(%a : tensor<4xf32>) -> tensor<4xf32>, tensor<1x4xf32>
      attributes {slots = 2 : i64} {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    %d = op.exp %c : tensor<4xf32> -> tensor<4xf32>
    op.yield %d, %c : tensor<4xf32>, tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
  job.output "s", %s : tensor<1x4xf32>
}

// What only takes room stays in the body; for an op that leaves and reads it, it leaves.

// CHECK-LABEL: job.job @room
// CHECK-NEXT:  %a = job.input
// CHECK-NEXT:  %x = job.input
// CHECK-NEXT:  %f = op.expand %a to [8, 4]
// CHECK-NEXT:  %g = op.exp %f
// CHECK-NEXT:  op.loop 3 carries(%x : {{.*}}) reads(%a, %g :
// CHECK:         %d = op.expand %r to [8, 4]
// CHECK-NEXT:    op.add %c, %d
// CHECK-NEXT:    op.mul
job.job @room placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %x = job.input "x" : tensor<8x4xf32>
  %b = op.loop 3 carries(%x : tensor<8x4xf32>) reads(%a : tensor<4xf32>)
      -> tensor<8x4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<8x4xf32>, %r: tensor<4xf32>):
    %d = op.expand %r to [8, 4] : tensor<4xf32> -> tensor<8x4xf32>
    %e = op.add %c, %d : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
    %f = op.expand %r to [8, 4] : tensor<4xf32> -> tensor<8x4xf32>
    %g = op.exp %f : tensor<8x4xf32> -> tensor<8x4xf32>
    %h = op.mul %e, %g : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
    op.yield %h : tensor<8x4xf32>
  }
  job.output "b", %b : tensor<8x4xf32>
}
