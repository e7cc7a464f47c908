// RUN: penstock-opt %s -p regst-alias-registers --verify-diagnostics --split-input-file

// An alias by hand is an error where a rule keeps it from lying there.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

plan.plan @unsound {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %x = regst.register "x" slots 1 on <0, host> : !r
  // expected-error@+1 {{regst-alias-registers: register 'a' cannot lie on 'x': reader: 'late' may read it later}}
  %a = regst.register "a" alias %x : !r slots 1 on <0, host> : !r
  // expected-error@+1 {{register 'b' cannot lie on 'w': variable: 'w' is one}}
  %b = regst.register "b" alias %w : !r slots 1 on <0, host> : !r
  // expected-error@+1 {{register 'c' cannot lie on 'x': source: its task reads nothing that lies there}}
  %c = regst.register "c" alias %x : !r slots 1 on <0, host> : !r
  %e = regst.register "e" slots 1 on <0, host> : !r
  // expected-error@+1 {{register 'd' cannot lie on 'e': never: it is to be kept off operand 0}}
  %d = regst.register "d" alias %e : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %1 = job.variable "w" init <zeros> : !t
    plan.yield %1 : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%b : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%b : !r) outs(%c : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "e" on <0, cpu:0> stream <compute, 0> ins() outs(%e : !r) {
    %1 = job.input "e" : !t
    plan.yield %1 : !t
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%e : !r) outs(%d : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 {in_place = [#op.hint<never>]} : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "late" on <0, cpu:0> stream <compute, 0> ins(%x : !r) {
  ^bb0(%0: !t):
    job.output "x", %0 : !t
    plan.yield
  }
}

// -----

// Nor has it a reason to lie on what no task uses, on another part of what its task
// reads, or on what only lies there by hand, too.

!r = !regst.data<tensor<2xf32>>
!w = !regst.data<tensor<8xf32>>
!t = tensor<2xf32>

plan.plan @no_reason {
  %pool = regst.register "pool" slots 1 on <0, host> : !w
  %l = regst.register "l" slots 1 on <0, host> : !w
  // expected-error@+1 {{register 'a' cannot lie on 'pool': source: its task reads nothing that lies there}}
  %a = regst.register "a" alias %pool : !w slots 1 on <0, host> : !r
  // expected-error@+1 {{register 's' cannot lie on 'l': source: its task reads nothing that lies there}}
  %s = regst.register "s" alias %l : !w at 8 slots 1 on <0, host> : !r
  plan.task "l" on <0, cpu:0> stream <compute, 0> ins() outs(%l : !w) {
    %1 = job.input "l" : tensor<8xf32>
    plan.yield %1 : tensor<8xf32>
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%l : !w) outs(%s : !r) {
  ^bb0(%0: tensor<8xf32>):
    %1 = op.slice %0 from [0] to [2] by [1] : tensor<8xf32> -> !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%s : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
}

// -----

// Of a concatenation all operands are parts of the result, or none.

!r = !regst.data<tensor<2xf32>>
!w = !regst.data<tensor<4xf32>>
!t = tensor<2xf32>

plan.plan @part {
  %v = regst.register "v" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !w
  // expected-error@+1 {{register 'x' cannot lie on 'c': variable: 'v' is one}}
  %x = regst.register "x" alias %c : !w slots 1 on <0, host> : !r
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %1 = job.variable "v" init <zeros> : !t
    plan.yield %1 : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%x, %v : !r, !r) outs(%c : !w) {
  ^bb0(%0: !t, %1: !t):
    %2 = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %2 : tensor<4xf32>
  }
}
