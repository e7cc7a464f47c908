// RUN: penstock-opt -p op-unroll-loops %s | filecheck %s
// RUN: penstock-opt -p 'op-unroll-loops{up-to=2}' %s | filecheck %s --check-prefix SHORT

// Slices and iterations are counted from the end; a loop in the body is unrolled, too.

// CHECK-LABEL: job.job @backward
// SHORT-LABEL: job.job @backward
job.job @backward placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %xs = job.input "xs" : tensor<2xf32>
  // CHECK-NOT:  op.loop
  // CHECK:      op.slice %xs from [1] to [2] by [1] : tensor<2xf32> -> tensor<1xf32>
  // CHECK-NEXT: [[X:%.*]] = op.reshape
  // CHECK:      op.add %a, [[X]]
  // CHECK:      op.exp
  // CHECK:      op.exp
  // CHECK:      op.slice %xs from [0] to [1] by [1] : tensor<2xf32> -> tensor<1xf32>
  // CHECK:      op.concat
  // CHECK:      job.output "ys", %ys
  // SHORT-NOT:  op.loop
  %b, %ys = op.loop 2 backward carries(%a : tensor<f32>) slices(%xs : tensor<2xf32>)
      -> tensor<f32>, tensor<2xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>, %x: tensor<f32>):
    %d = op.add %c, %x : tensor<f32>, tensor<f32> -> tensor<f32>
    %e = op.loop 2 carries(%d : tensor<f32>) -> tensor<f32> {
    ^bb0(%j: tensor<i64>, %f: tensor<f32>):
      %g = op.exp %f : tensor<f32> -> tensor<f32>
      op.yield %g : tensor<f32>
    }
    op.yield %e, %c : tensor<f32>, tensor<f32>
  }
  job.output "b", %b : tensor<f32>
  job.output "ys", %ys : tensor<2xf32>
}

// SHORT-LABEL: job.job @long
// SHORT:       op.loop 3
job.job @long placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %b = op.loop 3 carries(%a : tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    %d = op.exp %c : tensor<f32> -> tensor<f32>
    op.yield %d : tensor<f32>
  }
  job.output "b", %b : tensor<f32>
}

// A loop without iterations gives what it was given, and tensors without elements.

// CHECK-LABEL: job.job @never
// CHECK:       op.constant dense<> : tensor<0x4xf32>
// CHECK:       job.output "b", %a
job.job @never placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<4xf32>
  %b, %s = op.loop 0 carries(%a : tensor<4xf32>) -> tensor<4xf32>, tensor<0x4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    op.yield %c, %c : tensor<4xf32>, tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
  job.output "s", %s : tensor<0x4xf32>
}

// Extents that are not known yet: the loop stays.

// CHECK-LABEL: job.job @open
// CHECK:       op.loop 3
job.job @open placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<3x?xf32>
  %y = op.loop 3 slices(%x : tensor<3x?xf32>) -> tensor<3x?xf32> {
  ^bb0(%i: tensor<i64>, %r: tensor<?xf32>):
    %d = op.exp %r : tensor<?xf32> -> tensor<?xf32>
    op.yield %d : tensor<?xf32>
  }
  job.output "y", %y : tensor<3x?xf32>
}

// The number of an iteration is a constant, where it is read.

// CHECK-LABEL: job.job @numbers
// CHECK:       [[ZERO:%.*]] = op.constant {acme.note = "kept"} dense<0>
// CHECK-NEXT:  [[FIRST:%.*]] = op.add %a, [[ZERO]] {acme.note = "kept"}
// CHECK-NEXT:  [[ONE:%.*]] = op.constant {acme.note = "kept"} dense<1>
// CHECK-NEXT:  %b = op.add [[FIRST]], [[ONE]] {acme.note = "kept"}
// CHECK-NEXT:  job.output "b", %b
job.job @numbers placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<i64>
  %b = op.loop 2 carries(%a : tensor<i64>) -> tensor<i64>
      attributes {acme.note = "kept"} {
  ^bb0(%i: tensor<i64>, %c: tensor<i64>):
    %d = op.add %c, %i : tensor<i64>, tensor<i64> -> tensor<i64>
    op.yield %d : tensor<i64>
  }
  job.output "b", %b : tensor<i64>
}

// All iterations of a maximum are computed, and selected where they are to be made; a
// count is checked.

// CHECK-LABEL: job.job @counted
// CHECK:       [[MOST:%.*]] = op.constant dense<2>
// CHECK:       op.less_equal %n, [[MOST]]
// CHECK:       [[FITS:%.*]] = op.logical_and
// CHECK-NEXT:  [[N:%.*]] = op.require [[FITS]], %n "loop 'b' is to make other than 0 to 2 iterations"
// CHECK:       [[FIRST:%.*]] = op.less {{%.*}}, [[N]]
// CHECK-NEXT:  [[D:%.*]] = op.exp %a
// CHECK-NEXT:  [[B:%.*]] = op.where [[FIRST]], [[D]], %a
// CHECK:       [[ROW:%.*]] = op.where [[FIRST]], %a, {{%.*}}
// CHECK:       [[SECOND:%.*]] = op.less {{%.*}}, [[N]]
// CHECK-NEXT:  [[E:%.*]] = op.exp [[B]]
// CHECK-NEXT:  %b = op.where [[SECOND]], [[E]], [[B]]
// CHECK:       op.concat
// CHECK:       %made = op.add
// SHORT-LABEL: job.job @counted
// SHORT-NOT:   op.loop
job.job @counted placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %n = job.input "n" : tensor<i64>
  %b, %s, %made = op.loop up to 2 count(%n) carries(%a : tensor<f32>) made
      -> tensor<f32>, tensor<2xf32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    %d = op.exp %c : tensor<f32> -> tensor<f32>
    op.yield %d, %c : tensor<f32>, tensor<f32>
  }
  job.output "b", %b : tensor<f32>
  job.output "s", %s : tensor<2xf32>
  job.output "made", %made : tensor<i64>
}

// Without a count the condition must not hold after the last iteration.

// CHECK-LABEL: job.job @conditional
// CHECK:       [[FIRST:%.*]] = op.less %a, [[LIMIT:%.*]] :
// CHECK:       [[AGAIN:%.*]] = op.logical_and %go, [[FIRST]]
// CHECK-NEXT:  [[ENDS:%.*]] = op.logical_not [[AGAIN]]
// CHECK-NEXT:  [[LAST:%.*]] = op.require [[ENDS]], %go "the condition of loop 'end' still holds after iteration 0, the last of its maximum of 1"
// CHECK-NEXT:  %end = op.where [[LAST]], [[FIRST]], %go
// SHORT-LABEL: job.job @conditional
job.job @conditional placement <cpu, [0:0]> {
  %go = job.input "go" : tensor<i1>
  %a = job.input "a" : tensor<f32>
  %end, %b = op.loop up to 1 while(%go) carries(%a : tensor<f32>)
      -> tensor<i1>, tensor<f32> {
  ^bb0(%i: tensor<i64>, %g: tensor<i1>, %c: tensor<f32>):
    %one = op.constant dense<1.0> : tensor<f32>
    %again = op.less %c, %one : tensor<f32>, tensor<f32> -> tensor<i1>
    op.yield %again, %c : tensor<i1>, tensor<f32>
  }
  job.output "end", %end : tensor<i1>
  job.output "b", %b : tensor<f32>
}

// Some ops must not be computed in vain: their loop stays, and so does a longer one.

// CHECK-LABEL: job.job @failing
// CHECK:       op.loop up to 2 {{.*}} attributes {no_unroll = "op.gather can fail"}
// SHORT-LABEL: job.job @failing
// SHORT:       op.loop up to 3
job.job @failing placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %t = job.input "t" : tensor<5xi64>
  %b = op.loop up to 2 count(%n) carries(%n : tensor<i64>) reads(%t : tensor<5xi64>)
      -> tensor<i64> {
  ^bb0(%i: tensor<i64>, %c: tensor<i64>, %u: tensor<5xi64>):
    %d = op.gather %u[%c] axis 0 : tensor<5xi64>, tensor<i64> -> tensor<i64>
    op.yield %d : tensor<i64>
  }
  %e = op.loop up to 3 count(%n) carries(%b : tensor<i64>) -> tensor<i64> {
  ^bb0(%j: tensor<i64>, %f: tensor<i64>):
    op.yield %f : tensor<i64>
  }
  job.output "e", %e : tensor<i64>
}

// The ops that make the results have the slots that the loop asks for; a value that is
// there without the loop has its own.

// CHECK-LABEL: job.job @slots
// CHECK:       op.exp %a : tensor<f32>
// CHECK:       %b = op.exp {{%.*}} {slots = 3 : i64}
// CHECK:       %ys = op.concat {{.*}} {slots = 3 : i64}
job.job @slots placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %b, %c, %ys = op.loop 2 carries(%a, %a : tensor<f32>, tensor<f32>)
      -> tensor<f32>, tensor<f32>, tensor<2xf32> attributes {slots = 3 : i64} {
  ^bb0(%i: tensor<i64>, %s: tensor<f32>, %same: tensor<f32>):
    %e = op.exp %s : tensor<f32> -> tensor<f32>
    op.yield %e, %same, %s : tensor<f32>, tensor<f32>, tensor<f32>
  }
  // CHECK:     job.output "b", %b
  job.output "b", %b : tensor<f32>
  // CHECK:     job.output "c", %a
  job.output "c", %c : tensor<f32>
  job.output "ys", %ys : tensor<2xf32>
}
