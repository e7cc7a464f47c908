// RUN: penstock-opt %s -p op-fuse-elementwise | filecheck %s
// RUN: penstock-opt %s -p op-fuse-elementwise,op-fuse-elementwise | filecheck %s

!t = tensor<4x8xf32>

// A chain becomes one op, which reads each value once and has the last op's name.

// CHECK-LABEL: job.job @chain
job.job @chain placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %b = job.input "b" : tensor<8xf32>
  // CHECK:      %d = op.fused %x, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[X:x.*]]: tensor<4x8xf32>, %[[B:b.*]]: tensor<8xf32>):
  // CHECK-NEXT:   %a = op.add %[[X]], %[[B]]
  %a = op.add %x, %b : !t, tensor<8xf32> -> !t
  // CHECK-NEXT:   %c = op.relu %a
  %c = op.relu %a : !t -> !t
  // CHECK-NEXT:   %[[D:d.*]] = op.add %[[X]], %c
  %d = op.add %x, %c : !t, !t -> !t
  // CHECK-NEXT:   op.yield %[[D]]
  // CHECK-NEXT: }
  // CHECK-NEXT: job.output "y", %d
  job.output "y", %d : !t
}

// A value that leaves the group and comes back through another op is not in it: the
// group would need what it makes.

// CHECK-LABEL: job.job @convex
job.job @convex placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // CHECK: %a = op.relu %x
  %a = op.relu %x : !t -> !t
  // CHECK: %m = "test.op"(%a)
  %m = "test.op"(%a) : (!t) -> !t
  // CHECK: op.fused %m, %a
  %b = op.relu %m : !t -> !t
  %c = op.add %a, %b : !t, !t -> !t
  job.output "y", %c : !t
}

// A value that two groups use is computed once, with the first of them, and is a result.

// CHECK-LABEL: job.job @two_users
// CHECK:         %b, %a = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32> {
// CHECK:           op.yield %{{.+}}, %{{.+}} : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK:         %c = op.relu %a
job.job @two_users placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %a : !t -> !t
  %c = op.relu %a : !t -> !t
  job.output "b", %b : !t
  job.output "c", %c : !t
}

// Where all users of a value are in one group, so is the value.

// CHECK-LABEL: job.job @diamond
// CHECK:         %d = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
// CHECK-NOT:     op.fused
job.job @diamond placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %a : !t -> !t
  %c = op.relu %a : !t -> !t
  %d = op.add %b, %c : !t, !t -> !t
  job.output "d", %d : !t
}

// So is one that is also an output, which stands behind the group then, with those that
// stood behind it.

// CHECK-LABEL: job.job @output
// CHECK:         job.output "z", %x
// CHECK-NEXT:    %b, %a = op.fused %x
// CHECK:         job.output "a", %a
// CHECK-NEXT:    job.output "x", %x
// CHECK-NEXT:    job.output "b", %b
job.job @output placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  job.output "z", %x : !t
  %a = op.relu %x : !t -> !t
  job.output "a", %a : !t
  job.output "x", %x : !t
  %b = op.relu %a : !t -> !t
  job.output "b", %b : !t
}

// The updates of a parameter and its state are one op, wherever they are assigned.

// CHECK-LABEL: job.job @updates
// CHECK:         %p, %m, %v = op.fused %m0, %g, %v0, %p0
// CHECK-NOT:     op.fused
// CHECK:         job.assign %m to %m0
// CHECK-NEXT:    job.assign %v to %v0
// CHECK-NEXT:    job.assign %p to %p0
job.job @updates placement <cpu, [0:0]> {
  %p0 = job.variable "p" init <zeros> : !t
  %m0 = job.variable "m" init <zeros> : !t
  %v0 = job.variable "v" init <zeros> : !t
  %g = job.input "g" : !t
  %share = op.constant dense<0.9> : tensor<f32>
  %a = op.mul %m0, %share : !t, tensor<f32> -> !t
  %m = op.add %g, %a : !t, !t -> !t
  job.assign %m to %m0 : !t
  %b = op.mul %v0, %share : !t, tensor<f32> -> !t
  %s = op.mul %g, %g : !t, !t -> !t
  %v = op.add %s, %b : !t, !t -> !t
  job.assign %v to %v0 : !t
  %r = op.sqrt %v : !t -> !t
  %d = op.div %m, %r : !t, !t -> !t
  %p = op.sub %p0, %d : !t, !t -> !t
  job.assign %p to %p0 : !t
}

// Not so what others use before, and what is next to a contraction or an op on rows,
// whose kernels compute one elementwise op.

// CHECK-LABEL: job.job @apart
// CHECK-NOT:     op.fused
job.job @apart placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.input "w" : tensor<8x8xf32>
  %a = op.relu %x : !t -> !t
  %s = op.softmax %a : !t -> !t
  %b = op.add %a, %s : !t, !t -> !t
  job.output "b", %b : !t
  %m = op.matmul %x, %w : !t, tensor<8x8xf32> -> !t
  %c = op.relu %m : !t -> !t
  job.output "c", %c : !t
  %d = op.neg %c : !t -> !t
  job.output "d", %d : !t
  %e = op.exp %x : !t -> !t
  job.output "e", %e : !t
  %n = op.matmul %x, %w : !t, tensor<8x8xf32> -> !t
  %f = op.mul %n, %e : !t, !t -> !t
  job.output "f", %f : !t
}

// A smaller tensor is computed once, not for each element of the larger one.

// CHECK-LABEL: job.job @broadcast
// CHECK-NOT:     op.fused
job.job @broadcast placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %b = job.input "b" : tensor<8xf32>
  %a = op.relu %b : tensor<8xf32> -> tensor<8xf32>
  %c = op.add %x, %a : !t, tensor<8xf32> -> !t
  job.output "y", %c : !t
}

// Nor is anything fused whose extents may differ when it runs.

// CHECK-LABEL: job.job @dynamic
// CHECK-NOT:     op.fused
job.job @dynamic placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<?xf32>
  %a = op.relu %x : tensor<?xf32> -> tensor<?xf32>
  %b = op.relu %a : tensor<?xf32> -> tensor<?xf32>
  job.output "y", %b : tensor<?xf32>
}

// Ops are fused with those on the same device; the group is placed as they were.

// CHECK-LABEL: job.job @devices
job.job @devices placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // CHECK:      %a = op.relu %x : tensor
  %a = op.relu %x : !t -> !t
  // CHECK-NEXT: %c = op.fused %a : tensor<4x8xf32> -> tensor<4x8xf32> attributes {placement = #job.placement<cuda, [0:0]>} {
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT:   op.relu %{{[^ ]+}} : tensor
  %b = op.relu %a {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  // CHECK-NEXT:   op.relu %b : tensor
  %c = op.relu %b {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  job.output "y", %c : !t
}

// To spell the job's own placement out makes no difference.

// CHECK-LABEL: job.job @same_device
// CHECK:         op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
job.job @same_device placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x {placement = #job.placement<cpu, [0:0]>} : !t -> !t
  %b = op.relu %a : !t -> !t
  job.output "y", %b : !t
}

// A splat constant is cloned into the groups that use it, and goes where no one else
// uses it. That is worth a group of one op.

// CHECK-LABEL: job.job @constant
job.job @constant placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %u = job.input "u" : !t
  // CHECK-NEXT: %x = job.input "x"
  // CHECK-NEXT: %u = job.input "u"
  // CHECK-NEXT: %a = op.fused %x : tensor<4x8xf32> -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[X:.+]]: tensor<4x8xf32>):
  // CHECK-NEXT:   %[[C:.+]] = op.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-NEXT:   %[[A:.+]] = op.add %[[X]], %[[C]]
  %c = op.constant {placement = #job.placement<cpu, [0:0]>, slots = 2 : i64} dense<1.0> : tensor<f32>
  %a = op.add %x, %c : !t, tensor<f32> -> !t
  job.output "a", %a : !t
  // CHECK: %d = op.fused %u : tensor<4x8xf32> -> tensor<4x8xf32> {
  // CHECK-NEXT: ^bb0(%[[A:.+]]: tensor<4x8xf32>):
  // CHECK-NEXT:   %[[C:.+]] = op.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-NEXT:   %[[B:.+]] = op.add %[[A]], %[[C]]
  // CHECK-NEXT:   op.add %[[C]], %[[B]]
  %b = op.add %u, %c : !t, tensor<f32> -> !t
  %d = op.add %c, %b : tensor<f32>, !t -> !t
  job.output "b", %d : !t
}

// Others may use the constant too, which then stays.

// CHECK-LABEL: job.job @kept_constant
// CHECK:         %c = op.constant
// CHECK:         op.fused %x
// CHECK:         job.output "c", %c
job.job @kept_constant placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %c = op.constant dense<1.0> : !t
  %a = op.add %x, %c : !t, !t -> !t
  job.output "a", %a : !t
  job.output "c", %c : !t
}

// A constant may be larger than what it is combined with, and all operands constant.

// CHECK-LABEL: job.job @large_constant
// CHECK:         %a = op.fused %b : tensor<8xf32> -> tensor<4x8xf32> {
// CHECK:         %d = op.fused -> tensor<4x8xf32> {
job.job @large_constant placement <cpu, [0:0]> {
  %b = job.input "b" : tensor<8xf32>
  %c = op.constant dense<1.0> : !t
  %a = op.add %b, %c : tensor<8xf32>, !t -> !t
  %d = op.add %c, %c : !t, !t -> !t
  job.output "a", %a : !t
  job.output "d", %d : !t
}

// A constant with different elements is an operand, and one that was dead before stays.

// CHECK-LABEL: job.job @data
// CHECK:         %c = op.constant dense<[1.0
// CHECK:         %dead = op.constant dense<1.0
// CHECK:         op.add %x, %c
// CHECK-NOT:     op.fused
job.job @data placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2xf32>
  %c = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %dead = op.constant dense<1.0> : tensor<2xf32>
  %a = op.add %x, %c : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  job.output "a", %a : tensor<2xf32>
}

// An op that asks for slots keeps a register of its own; the group asks for what its
// last op did, and has the notes of that. Other attributes stay with their op.

// CHECK-LABEL: job.job @slots
job.job @slots placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // CHECK: %a = op.relu %x {slots = 2 : i64}
  %a = op.relu %x {slots = 2 : i64} : !t -> !t
  // CHECK: %c = op.fused %a : tensor<4x8xf32> -> tensor<4x8xf32> attributes {slots = 3 : i64, acme.note = "last"} {
  %b = op.relu %a : !t -> !t
  // CHECK: op.relu %b {acme.note = "last"} :
  %c = op.relu %b {acme.note = "last", slots = 3 : i64} : !t -> !t
  job.output "y", %c : !t
}

// An `op.fused` that is there already stays as it is: nothing joins it.

// CHECK-LABEL: job.job @fused
job.job @fused placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // CHECK: %a = op.relu %x
  %a = op.relu %x : !t -> !t
  // CHECK: %b = op.fused %a
  %b = op.fused %a : !t -> !t {
  ^bb0(%p: !t):
    %q = op.relu %p : !t -> !t
    op.yield %q : !t
  }
  // CHECK: %c = op.relu %b
  %c = op.relu %b : !t -> !t
  job.output "y", %c : !t
}

// Dead ops are nobody's members, and what only they use is fused with them.

// CHECK-LABEL: job.job @dead
// CHECK:         %b = op.fused %x
job.job @dead placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %a : !t -> !t
}

// Ops outside of jobs are left alone.

// CHECK-LABEL: func.func @no_job
// CHECK-NOT:     op.fused
func.func @no_job(%x: !t) -> !t {
  %a = op.relu %x : !t -> !t
  %b = op.relu %a : !t -> !t
  func.return %b : !t
}

// On several devices ops are fused that do the same parts. What makes terms of a sum is
// not: no fused op is known to be linear.

// CHECK-LABEL: job.job @parts
job.job @parts placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : tensor<4xf32>
  // CHECK:      op.fused %w : tensor<4xf32> -> tensor<4xf32> attributes {sbp = #job.sbp<S(0)>} {
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT:   op.relu %{{.+}} : tensor<4xf32> -> tensor<4xf32>
  // CHECK-NEXT:   op.neg
  %a = op.relu %w {sbp = #job.sbp<S(0)>} : tensor<4xf32> -> tensor<4xf32>
  %b = op.neg %a {sbp = #job.sbp<S(0)>} : tensor<4xf32> -> tensor<4xf32>
  // CHECK: op.neg %{{.+}} {sbp = #job.sbp<P>}
  // CHECK: op.add %{{.+}} {sbp = #job.sbp<P>}
  %p = job.boxing %b from <S(0)> on <cpu, [0:0-1]> to <P> on <cpu, [0:0-1]> : tensor<4xf32>
  %n = op.neg %p {sbp = #job.sbp<P>} : tensor<4xf32> -> tensor<4xf32>
  %s = op.add %n, %n {sbp = #job.sbp<P>} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
}

// Before boxings are inserted, an op may need its operands in other parts.

// CHECK-LABEL: job.job @no_boxing
// CHECK-NOT:     op.fused
job.job @no_boxing placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<B>} : tensor<4xf32>
  %a = op.relu %w {sbp = #job.sbp<B>, operand_sbp = [#job.sbp<B>]} : tensor<4xf32> -> tensor<4xf32>
  %b = op.neg %a {sbp = #job.sbp<S(0)>, operand_sbp = [#job.sbp<S(0)>]} : tensor<4xf32> -> tensor<4xf32>
}

// What lies in another way than it is used is left for conversion to refuse.

// CHECK-LABEL: job.job @misplaced
// CHECK-NOT:     op.fused
job.job @misplaced placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<B>} : tensor<4xf32>
  %a = op.relu %w {sbp = #job.sbp<B>} : tensor<4xf32> -> tensor<4xf32>
  %b = op.neg %a {sbp = #job.sbp<S(0)>} : tensor<4xf32> -> tensor<4xf32>
}
