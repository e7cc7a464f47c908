// RUN: penstock-opt -p op-select-branches %s | filecheck %s

// A condition that is known leaves one body, which may have ops that fail.

// CHECK-LABEL: job.job @known
// CHECK-NEXT:  %x = job.input
// CHECK-NEXT:  %i = job.input
// CHECK-NEXT:  op.constant
// CHECK-NEXT:  %g = op.gather %x[%i]
// CHECK-NEXT:  job.output "y", %g
job.job @known placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %c = op.constant dense<true> : tensor<i1>
  %y = op.if %c reads(%x, %i : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %j: tensor<4xi64>):
    %g = op.gather %a[%j] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
    op.yield %g : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>, %k: tensor<4xi64>):
    op.yield %b : tensor<4xf32>
  }
  job.output "y", %y : tensor<4xf32>
}

// CHECK-LABEL: job.job @nested
// CHECK-NOT:   op.if
// CHECK:       [[E:%.*]] = op.exp %x
// CHECK-NEXT:  [[IN:%.*]] = op.where %d, [[E]], %x
// CHECK-NEXT:  %y = op.where %c, [[IN]], %x
// CHECK-NEXT:  %z = op.where %c, %x, %x
job.job @nested placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %c = job.input "c" : tensor<i1>
  %d = job.input "d" : tensor<i1>
  %y, %z = op.if %c reads(%x, %d : tensor<4xf32>, tensor<i1>)
      -> tensor<4xf32>, tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %f: tensor<i1>):
    %r = op.if %f reads(%a : tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%p: tensor<4xf32>):
      %e = op.exp %p : tensor<4xf32> -> tensor<4xf32>
      op.yield %e : tensor<4xf32>
    } else {
    ^bb0(%q: tensor<4xf32>):
      op.yield %q : tensor<4xf32>
    }
    op.yield %r, %a : tensor<4xf32>, tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>, %g: tensor<i1>):
    op.yield %b, %b : tensor<4xf32>, tensor<4xf32>
  }
  job.output "y", %y : tensor<4xf32>
  job.output "z", %z : tensor<4xf32>
}

// What may fail is not computed unless it is wanted.

// CHECK-LABEL: job.job @fails
// CHECK:       op.if %c
// CHECK-SAME:  attributes {no_select = "op.gather can fail"}
job.job @fails placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %c = job.input "c" : tensor<i1>
  %y = op.if %c reads(%x, %i : tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %j: tensor<4xi64>):
    %g = op.gather %a[%j] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
    op.yield %g : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>, %k: tensor<4xi64>):
    op.yield %b : tensor<4xf32>
  }
  job.output "y", %y : tensor<4xf32>
}

// What makes the result has the slots that the condition asks for.

// CHECK-LABEL: job.job @slots
// CHECK:       op.exp %x : tensor<4xf32>
// CHECK-NEXT:  %y = op.where %c, {{.*}} {slots = 2 : i64}
job.job @slots placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %c = job.input "c" : tensor<i1>
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32>
      attributes {slots = 2 : i64} {
  ^bb0(%a: tensor<4xf32>):
    %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
    op.yield %e : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    op.yield %b : tensor<4xf32>
  }
  job.output "y", %y : tensor<4xf32>
}
