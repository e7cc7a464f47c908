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
