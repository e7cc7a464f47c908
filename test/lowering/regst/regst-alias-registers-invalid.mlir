// RUN: penstock-opt %s --load %S/../Inputs/accumulate.py -p regst-alias-registers --verify-diagnostics --split-input-file | filecheck %s

// What must be written over an operand comes before what may: what `d` and `b` have to
// write over is no view of a variable, and no view of it is read later.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>
!v = !regst.data<tensor<2x1xf32>>

// CHECK-LABEL: plan.plan @must
// CHECK:         regst.register "x" slots 1 on <0, host> {no_alias = "must: 'd' has to write over it"}
// CHECK:         %[[T:.+]] = regst.register "t" slots 1
// CHECK:         regst.register "y" slots 1 on <0, host> {no_alias = "must: 'b' has to write over it"}
// CHECK:         regst.register "b" alias %[[T]]
plan.plan @must {
  %w = regst.register "w" slots 1 on <0, host> : !v
  %x = regst.register "x" slots 1 on <0, host> : !r
  %t = regst.register "t" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !v
  %b = regst.register "b" slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !v) {
    %0 = job.variable "w" init <zeros> : tensor<2x1xf32>
    plan.yield %0 : tensor<2x1xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins(%w : !v) outs(%x : !r) {
  ^bb0(%0: tensor<2x1xf32>):
    %1 = op.reshape %0 to [2] : tensor<2x1xf32> -> !t
    plan.yield %1 : !t
  }
  plan.task "t" on <0, cpu:0> stream <compute, 0> ins() outs(%t : !r) {
    %0 = job.input "t" : !t
    plan.yield %0 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%t : !r) outs(%y : !v) {
  ^bb0(%0: !t):
    %1 = op.reshape %0 to [2, 1] : !t -> tensor<2x1xf32>
    plan.yield %1 : tensor<2x1xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x, %t : !r, !r) outs(%b : !r) {
  ^bb0(%0: !t, %1: !t):
    %2 = "third.accumulate"(%0, %1) : (!t, !t) -> !t
    plan.yield %2 : !t
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%b, %x : !r, !r) outs(%d : !r) {
  ^bb0(%0: !t, %1: !t):
    %2 = "third.accumulate"(%0, %1) : (!t, !t) -> !t
    plan.yield %2 : !t
  }
  plan.task "late" on <0, cpu:0> stream <compute, 0> ins(%y : !v) {
  ^bb0(%0: tensor<2x1xf32>):
    job.output "y", %0 : tensor<2x1xf32>
    plan.yield
  }
}

// -----

// What cannot is an error, with the rule that keeps it.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

plan.plan @cannot {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %x = regst.register "x" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <zeros> : !t
    plan.yield %0 : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : !t
    plan.yield %0 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) outs(%a : !r) {
  ^bb0(%0: !t, %1: !t):
    // expected-error@+1 {{regst-alias-registers: third.accumulate must write 'a' over 'w', but variable: 'w' is one}}
    %2 = "third.accumulate"(%0, %1) : (!t, !t) -> !t
    plan.yield %2 : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a, %x : !r, !r) outs(%b : !r) {
  ^bb0(%0: !t, %1: !t):
    // expected-error@+1 {{third.accumulate must write 'b' over 'x', but reader: 'late' may read it later}}
    %2 = "third.accumulate"(%0, %1) : (!t, !t) -> !t
    plan.yield %2 : !t
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a, %b : !r, !r) outs(%c : !r) {
  ^bb0(%0: !t, %1: !t):
    // expected-error@+1 {{third.both must write 'c' over 'b', but twice: it already lies on another operand}}
    %2 = "third.both"(%0, %1) : (!t, !t) -> !t
    plan.yield %2 : !t
  }
  plan.task "late" on <0, cpu:0> stream <compute, 0> ins(%x : !r) {
  ^bb0(%0: !t):
    job.output "x", %0 : !t
    plan.yield
  }
}

// -----

// expected-error@+1 {{regst-alias-registers: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<2xf32> {
    %0 = job.input "x" : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
}

// -----

// The order of a stream counts too. What only waits for a cycle is not named.

!r = !regst.data<tensor<2xf32>>

plan.plan @stuck {
  %x = regst.register "x" slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-alias-registers: cycle x -> y -> x of registers and the order of streams}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 1 ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 0 ins(%x : !r) {
  ^bb0(%0: tensor<2xf32>):
    job.output "y", %0 : tensor<2xf32>
    plan.yield
  }
  plan.task "late" on <0, cpu:0> stream <compute, 0> order 2 ins(%x : !r) {
  ^bb0(%0: tensor<2xf32>):
    job.output "late", %0 : tensor<2xf32>
    plan.yield
  }
}

// -----

// Where some tasks of a stream have no order, they act as they are listed.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: plan.plan @some_ordered
plan.plan @some_ordered {
  %x = regst.register "x" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 1 ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) {
  ^bb0(%0: tensor<2xf32>):
    job.output "y", %0 : tensor<2xf32>
    plan.yield
  }
}
