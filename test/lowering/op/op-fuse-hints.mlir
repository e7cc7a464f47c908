// RUN: penstock-opt %s -p op-fuse-elementwise,op-fuse-epilogues,op-fuse-rows --split-input-file | filecheck %s

// What may lie over an operand, or never, goes on to the group, by the numbers that
// operands have there. What is said of results and operands that are no tensors any more
// goes: that of `n`, and that `r` may lie over `n`.

!t = tensor<4x4xf32>

// CHECK-LABEL: job.job @carried
// CHECK:         op.fused %y, %x {{.*}} attributes {in_place = [#op.hint<never over 1>]} {
// CHECK-NOT:     in_place
// CHECK:         job.output
job.job @carried placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %n = op.neg %y {in_place = [#op.hint<never>]} : !t -> !t
  %r = op.add %n, %x {in_place = [#op.hint<may over 0>, #op.hint<never over 1>]} : !t, !t -> !t
  job.output "r", %r : !t
}

// -----

// Of two operands that are one what is stricter counts.

!t = tensor<4x4xf32>
!b = tensor<4x4xi1>

// CHECK-LABEL: job.job @stricter
// CHECK:         op.fused %x {{.*}} attributes {in_place = [#op.hint<never over 0>]} {
job.job @stricter placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %c = op.constant dense<true> : !b
  %r = op.where %c, %x, %x {in_place = [#op.hint<never over 1>, #op.hint<may over 2>]} : !b, !t, !t -> !t
  job.output "r", %r : !t
}

// -----

// What must write over an operand is the last of its group, what makes that operand is
// in another one, and so is what reads it besides: `r` stays before `a`.

!t = tensor<4x4xf32>

// CHECK-LABEL: job.job @must
// CHECK:         op.neg %y
// CHECK-NEXT:    op.relu %n
// CHECK-NEXT:    op.fused %n, %x {{.*}} attributes {in_place = [#op.hint<must over 0>]} {
// CHECK-NEXT:    ^bb0
// CHECK-NEXT:      op.tanh
// CHECK-NEXT:      op.add
// CHECK-NEXT:      op.add
// CHECK-NEXT:      op.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    op.mul %r, %a
job.job @must placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %n = op.neg %y : !t -> !t
  %r = op.relu %n : !t -> !t
  %t = op.tanh %n : !t -> !t
  %u = op.add %t, %x : !t, !t -> !t
  %a = op.add %n, %u {in_place = [#op.hint<must over 0>]} : !t, !t -> !t
  %b = op.mul %r, %a : !t, !t -> !t
  job.output "b", %b : !t
}

// -----

// Nor is what reads a view of it moved behind it.

!t = tensor<4xf32>

// CHECK-LABEL: job.job @view
// CHECK:         op.reshape
// CHECK-NEXT:    op.relu %v
// CHECK-NEXT:    op.neg %x {in_place
// CHECK-NEXT:    op.reshape %a
// CHECK-NEXT:    op.mul %r, %b
job.job @view placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x2xf32>
  %v = op.reshape %x to [4] : tensor<2x2xf32> -> !t
  %r = op.relu %v : !t -> !t
  %a = op.neg %x {in_place = [#op.hint<must over 0>]} : tensor<2x2xf32> -> tensor<2x2xf32>
  %b = op.reshape %a to [4] : tensor<2x2xf32> -> !t
  %c = op.mul %r, %b : !t, !t -> !t
  job.output "c", %c : !t
}

// -----

// A constant that must be written over is no part of a group, nor is what contradicts
// itself: who makes aliases tells.

!t = tensor<4xf32>

// CHECK-LABEL: job.job @odd
// CHECK-NOT:     op.fused
// CHECK:         op.add %x, %c {in_place = [#op.hint<must over 1>]}
// CHECK-NEXT:    op.mul %a, %a {in_place = [#op.hint<must over 0>, #op.hint<never over 1>]}
job.job @odd placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %c = op.constant dense<1.0> : !t
  %a = op.add %x, %c {in_place = [#op.hint<must over 1>]} : !t, !t -> !t
  %b = op.mul %a, %a {in_place = [#op.hint<must over 0>, #op.hint<never over 1>]} : !t, !t -> !t
  job.output "b", %b : !t
}

// -----

// A product takes what follows it along unless that must write over something; so do
// rows. Hints about what is there go on, by result.

!t = tensor<4x4xf32>

// CHECK-LABEL: job.job @whole
// CHECK:         %e = op.fused %x, %y, %z {{.*}} attributes {in_place = [#op.hint<never over 2>]} {
// CHECK:         %m = op.matmul %e, %y
// CHECK-NEXT:    %f = op.add %m, %z {in_place = [#op.hint<must over 0>]}
// CHECK-NEXT:    %k, %s = op.fused %f, %e {{.*}} attributes {in_place = [#op.hint<never over 1>, #op.hint<result 1 may over 0>]} {
// CHECK:         %o = op.softmax %p {in_place = [#op.hint<must over 0>]}
// CHECK-NEXT:    %q = op.tanh %o
job.job @whole placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %z = job.input "z" : !t
  %l = op.matmul %x, %y : !t, !t -> !t
  %e = op.add %l, %z {in_place = [#op.hint<may over 0>, #op.hint<never over 1>]} : !t, !t -> !t
  %m = op.matmul %e, %y : !t, !t -> !t
  %f = op.add %m, %z {in_place = [#op.hint<must over 0>]} : !t, !t -> !t
  %s = op.add %f, %e {in_place = [#op.hint<may over 0>]} : !t, !t -> !t
  %n = op.softmax %s : !t -> !t
  %k = op.mul %n, %e {in_place = [#op.hint<never over 1>]} : !t, !t -> !t
  %p = op.matmul %k, %s : !t, !t -> !t
  %o = op.softmax %p {in_place = [#op.hint<must over 0>]} : !t -> !t
  %q = op.tanh %o : !t -> !t
  job.output "q", %q : !t
}
