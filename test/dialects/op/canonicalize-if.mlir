// RUN: penstock-opt -p job-clean %s | filecheck %s

// A condition that is known, or branches that do the same, leave one branch.

// CHECK-LABEL: job.job @known
// CHECK-NOT:   op.if
// CHECK:       [[A:%.*]] = op.exp %x
// CHECK-NEXT:  [[B:%.*]] = op.tanh %x
// CHECK-NEXT:  [[C:%.*]] = op.sqrt %x {acme.note = "kept"}
// CHECK-NEXT:  job.output "a", [[A]]
// CHECK-NEXT:  job.output "b", [[B]]
// CHECK-NEXT:  job.output "c", [[C]]
job.job @known placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %go = job.input "go" : tensor<i1>
  %t = op.constant dense<true> : tensor<i1>
  %f = op.constant dense<false> : tensor<i1>
  %a = op.if %t reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    %q = op.exp %p : tensor<4xf32> -> tensor<4xf32>
    op.yield %q : tensor<4xf32>
  } else {
  ^bb0(%r: tensor<4xf32>):
    op.yield %r : tensor<4xf32>
  }
  %b = op.if %f reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p_1: tensor<4xf32>):
    op.yield %p_1 : tensor<4xf32>
  } else {
  ^bb0(%r_1: tensor<4xf32>):
    %s_1 = op.tanh %r_1 : tensor<4xf32> -> tensor<4xf32>
    op.yield %s_1 : tensor<4xf32>
  }
  %c = op.if %go reads(%x : tensor<4xf32>) -> tensor<4xf32>
      attributes {acme.note = "kept"} {
  ^bb0(%p_2: tensor<4xf32>):
    %q_2 = op.sqrt %p_2 : tensor<4xf32> -> tensor<4xf32>
    op.yield %q_2 : tensor<4xf32>
  } else {
  ^bb0(%r_2: tensor<4xf32>):
    %s_2 = op.sqrt %r_2 : tensor<4xf32> -> tensor<4xf32>
    op.yield %s_2 : tensor<4xf32>
  }
  job.output "a", %a : tensor<4xf32>
  job.output "b", %b : tensor<4xf32>
  job.output "c", %c : tensor<4xf32>
}

// Results that nothing reads go, with what only they read; one that is the same in both
// branches is what these read, which is one operand if it was two.

// CHECK-LABEL: job.job @parts
// CHECK:       %b = op.if %go reads(%x : tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:  ^bb0([[P:%.*]]: tensor<4xf32>):
// CHECK-NEXT:    [[T:%.*]] = op.mul [[P]], [[P]]
// CHECK-NEXT:    op.yield [[T]] : tensor<4xf32>
// CHECK-NEXT:  } else {
// CHECK-NEXT:  ^bb0([[Q:%.*]]: tensor<4xf32>):
// CHECK-NEXT:    op.yield [[Q]] : tensor<4xf32>
// CHECK:       job.output "b", %b
// CHECK-NEXT:  job.output "c", %y
job.job @parts placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = job.input "y" : tensor<4xf32>
  %z = job.input "z" : tensor<4xf32>
  %go = job.input "go" : tensor<i1>
  %a, %b, %c = op.if %go
      reads(%x, %y, %z, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
      -> tensor<4xf32>, tensor<4xf32>, tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %r: tensor<4xf32>, %s: tensor<4xf32>):
    %t = op.mul %p, %s : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    op.yield %r, %t, %q : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  } else {
  ^bb0(%p_1: tensor<4xf32>, %q_1: tensor<4xf32>, %r_1: tensor<4xf32>, %s_1: tensor<4xf32>):
    op.yield %q_1, %p_1, %q_1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
  job.output "c", %c : tensor<4xf32>
}

// Branches that differ stay.

// CHECK-LABEL: job.job @differ
// CHECK:       op.if
job.job @differ placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = job.input "y" : tensor<4xf32>
  %go = job.input "go" : tensor<i1>
  %a = op.if %go reads(%x, %y : tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>):
    op.yield %p : tensor<4xf32>
  } else {
  ^bb0(%p_1: tensor<4xf32>, %q_1: tensor<4xf32>):
    op.yield %q_1 : tensor<4xf32>
  }
  job.output "a", %a : tensor<4xf32>
}
