// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file | filecheck %s

// Registers share bytes if the users of the one act before the writer of the other, and
// the other way round from one act to the next: here over data and a control register.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @in_turn
plan.plan @in_turn {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %a = regst.register "a" in %m at 64 slots 1 on <0, host> : !r
  %b = regst.register "b" in %m at 0 slots 1 on <0, host> : !r
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%turn : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) signals(%turn : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// The order of a stream counts for nothing unless registers make it, and one token of
// too many on the way back is enough to be too early.

!r = !regst.data<tensor<16xf32>>

plan.plan @too_many_tokens {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %a = regst.register "a" in %m at 64 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'x' and 'b' share 64 bytes, but task 'b' may use 'b' after task 'x' has begun to write 'x' again}}
  %b = regst.register "b" in %m at 0 slots 1 on <0, host> : !r
  %turn = regst.register "turn" slots 2 initial 2 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%x : !r) waits(%turn : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 1 ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 2 ins(%a : !r) outs(%b : !r) signals(%turn : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// What one task reads and writes never shares bytes. All pairs are named, with the bytes
// that both have; blocks may overlap, chunks do not.

!r = !regst.data<tensor<16xf32>>
!s = !regst.data<tensor<32xf32>>

plan.plan @all_pairs {
  %c = regst.chunk on <0, host> size 192
  %m = regst.block in %c at 0 size 128
  %n = regst.block in %c at 64 size 128
  %other = regst.chunk on <0, host> size 128
  %o = regst.block in %other at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !s
  // expected-error@+1 {{registers 'x' and 'a' share 64 bytes}}
  %a = regst.register "a" in %n at 0 slots 1 on <0, host> : !s
  // expected-error@+2 {{registers 'x' and 'b' share 64 bytes}}
  // expected-error@+1 {{registers 'a' and 'b' share 64 bytes}}
  %b = regst.register "b" in %m at 64 slots 1 on <0, host> : !r
  %elsewhere = regst.register "elsewhere" in %o at 0 slots 1 on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !s) {
    %v = "test.op"() : () -> tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !s) outs(%a, %b, %elsewhere : !s, !r, !s) {
  ^bb0(%0: tensor<32xf32>):
    %v, %w, %u = "test.op"() : () -> (tensor<32xf32>, tensor<16xf32>, tensor<32xf32>)
    plan.yield %v, %w, %u : tensor<32xf32>, tensor<16xf32>, tensor<32xf32>
  }
}

// -----

// A variable is needed all the time.

!r = !regst.data<tensor<16xf32>>

plan.plan @variable {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  // expected-error@+1 {{registers 'w' and 'x' share 64 bytes}}
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// A variable never acts.

plan.plan @acting_variable {
  %w = regst.register "w" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{verify-plan: no task waits for control register 'k'}}
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{verify-plan: variable 'w' waits or signals, but never acts}}
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !regst.data<tensor<4xf32>>) signals(%k : !regst.control) {
    %v = job.variable "w" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// A cycle without a token never acts: over data and control, from what is free at the
// start as much as from what is full. `d` needs both, and `e` can signal neither alone.
// The registers whose slots break a cycle are named.

!r = !regst.data<tensor<16xf32>>

plan.plan @deadlocks {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  %self = regst.register "self" slots 2 on <0, host> : !regst.control
  %full = regst.register "full" slots 2 initial 2 on <0, host> : !regst.control
  %go = regst.register "go" slots 1 on <0, host> : !regst.control
  %fine = regst.register "fine" slots 1 initial 1 on <0, host> : !regst.control
  // expected-error@+1 {{verify-plan: cycle a -> b -> a has no full slot at the start, and no slots break it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%k : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !r) waits(%fine : !regst.control) signals(%k, %fine : !regst.control, !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{verify-plan: cycle c -> c has no full slot at the start, and no slots break it}}
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins() waits(%self : !regst.control) signals(%self : !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{verify-plan: cycle d -> e -> d has no free slot; one more slot for register 'full' breaks it}}
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins() waits(%full, %go : !regst.control, !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "e" on <0, cpu:0> stream <compute, 0> ins() signals(%full, %go : !regst.control, !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Tasks behind a deadlock are not part of it; places are not looked at then.

plan.plan @behind {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  %l = regst.register "l" slots 1 on <0, host> : !regst.control
  plan.task "after" on <0, cpu:0> stream <compute, 0> ins() waits(%l : !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{verify-plan: cycle c -> c has no full slot at the start, and no slots break it}}
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) signals(%k, %l : !regst.control, !regst.control) {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Tasks of one stream have different places in it; those of two streams need not.

plan.plan @equal_orders {
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 3 ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{verify-plan: tasks 'a' and 'b' both have order 3}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 3 ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 1> order 3 ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "d" on <0, cpu:1> stream <compute, 0> order 3 ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// A task works in place if nobody else reads what it overwrites afterwards.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @in_place
plan.plan @in_place {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !r
  %z = regst.register "z" alias %y : !r slots 1 on <0, host> : !r
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "early" on <0, cpu:0> stream <compute, 1> ins(%x : !r) signals(%k : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) waits(%k : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%z : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

!r = !regst.data<tensor<16xf32>>

plan.plan @overwritten {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !r
  %z = regst.register "z" alias %y : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "late" on <0, cpu:0> stream <compute, 1> ins(%x : !r) {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{verify-plan: registers 'x' and 'y' share 64 bytes, but task 'late' may use 'x' after task 'y' has begun to write 'y'}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // The same holds for the alias of an alias.
  // expected-error@+1 {{verify-plan: registers 'x' and 'z' share 64 bytes, but task 'late' may use 'x' after task 'z' has begun to write 'z'}}
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%z : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// The users of an alias are users of what it stands for.

!r = !regst.data<tensor<16xf32>>

plan.plan @user_of_alias {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !r
  // expected-error@+1 {{registers 'y' and 'b' share 64 bytes}}
  %b = regst.register "b" in %m at 0 slots 1 on <0, host> : !r
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%turn : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%b : !r) signals(%turn : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// A task can only write over what it reads, by an op that can.

!r = !regst.data<tensor<16xf32>>

plan.plan @not_in_place {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !r
  %z = regst.register "z" alias %x : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // expected-error@+2 {{verify-plan: task 'y' writes 'y' over 'x', but test.op cannot work in place}}
  // expected-error@+1 {{verify-plan: registers 'y' and 'z' share 64 bytes, but task 'z' may use 'z' after task 'y' has begun to write 'y'}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"(%0) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // expected-error@+2 {{verify-plan: task 'z' writes 'z' over 'x', which it does not read}}
  // expected-error@+1 {{verify-plan: registers 'x' and 'z' share 64 bytes, but task 'x' may use 'x' after task 'z' has begun to write 'z'}}
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// An addition that broadcasts may overwrite the operand of the result's shape alone.

!r = !regst.data<tensor<4x4xf32>>
!s = !regst.data<tensor<4x1xf32>>

plan.plan @broadcast {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %s = regst.register "s" slots 1 on <0, host> : !s
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !r
  %bad = regst.register "bad" alias %y : !r slots 1 on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %s : !r, !s) {
    %v, %w = "test.op"() : () -> (tensor<4x4xf32>, tensor<4x1xf32>)
    plan.yield %v, %w : tensor<4x4xf32>, tensor<4x1xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%s, %x : !s, !r) outs(%y : !r) {
  ^bb0(%0: tensor<4x1xf32>, %1: tensor<4x4xf32>):
    %v = op.add %1, %0 : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
    plan.yield %v : tensor<4x4xf32>
  }
  // expected-error@+1 {{verify-plan: task 'bad' writes 'bad' over 'y', but job.copy cannot work in place}}
  plan.task "bad" on <0, cpu:0> stream <compute, 0> ins(%y, %s : !r, !s) outs(%bad : !s) {
  ^bb0(%0: tensor<4x4xf32>, %1: tensor<4x1xf32>):
    %v = job.copy %1 to <0, cpu:0> : tensor<4x1xf32>
    plan.yield %v : tensor<4x1xf32>
  }
}

// -----

!r = !regst.data<tensor<16xf32>>

plan.plan @over_a_variable {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %y = regst.register "y" alias %w : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // expected-error@+1 {{verify-plan: task 'y' writes 'y' over 'w', a variable}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%y : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Who reads an alias holds what it stands for: 'x' cannot act again before 'c' has, so
// that 'p' may lie where 'q' does.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @held
plan.plan @held {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %p = regst.register "p" in %m at 64 slots 1 on <0, host> : !r
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !r
  %q = regst.register "q" in %m at 64 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %p : !r, !r) {
    %v, %w = "test.op"() : () -> (tensor<16xf32>, tensor<16xf32>)
    plan.yield %v, %w : tensor<16xf32>, tensor<16xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x, %p : !r, !r) outs(%y : !r) {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>):
    %v = op.add %0, %1 : tensor<16xf32>, tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%q : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Results that lie in what they are views of, and parts that lie where a view puts them
// together, are written by nobody else: who reads them reads what others wrote.

!r = !regst.data<tensor<2xf32>>
!w = !regst.data<tensor<4xf32>>
!t = tensor<2xf32>

// CHECK-LABEL: plan.plan @views
plan.plan @views {
  %c = regst.chunk on <0, host> size 80
  %m = regst.block in %c at 0 size 80
  %c0 = regst.register "c" in %m at 0 slots 1 on <0, host> : !w
  %a = regst.register "a" alias %c0 : !w slots 1 on <0, host> : !r
  %b = regst.register "b" alias %c0 : !w at 8 slots 1 on <0, host> : !r
  %h = regst.register "h" alias %c0 : !w at 8 slots 1 on <0, host> : !r
  %o = regst.register "o" alias %c0 : !w at 8 slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a, %b : !r, !r) {
    %v, %u = "test.op"() : () -> (!t, !t)
    plan.yield %v, %u : !t, !t
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a, %b : !r, !r) outs(%c0 : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%c0 : !w) outs(%h : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.slice %0 from [2] to [4] by [1] : tensor<4xf32> -> !t
    plan.yield %v : !t
  }
  plan.task "o" on <0, cpu:0> stream <compute, 0> ins(%h : !r) outs(%o : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
}

// -----

// Parts that overlap, so that nothing puts them together, and a slice that lies at another
// byte than its elements: what is no view is written like any other result.

!r = !regst.data<tensor<2xf32>>
!w = !regst.data<tensor<4xf32>>
!t = tensor<2xf32>

plan.plan @bad_parts {
  %c = regst.register "c" slots 1 on <0, host> : !w
  %a = regst.register "a" alias %c : !w slots 1 on <0, host> : !r
  %b = regst.register "b" alias %c : !w at 4 slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, host> : !w
  %s = regst.register "s" alias %d : !w at 4 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: task 'a' writes 'a' over 'c', which it does not read}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+2 {{verify-plan: task 'b' writes 'b' over 'c', which it does not read}}
  // expected-error@+1 {{verify-plan: registers 'a' and 'b' share 4 bytes, but task 'a' may use 'a' after task 'b' has begun to write 'b'}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: task 'c' writes 'c' over 'b', but op.concat cannot work in place}}
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a, %b : !r, !r) outs(%c : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !w) outs(%d : !w) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{verify-plan: task 's' writes 's' over 'd', but op.slice cannot work in place}}
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%d : !w) outs(%s : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.slice %0 from [0] to [2] by [1] : tensor<4xf32> -> !t
    plan.yield %v : !t
  }
}

// -----

// The readers of a view read what it shows: `y` is the same bytes as `x`.

!r = !regst.data<tensor<2xf32>>
!v = !regst.data<tensor<2x1xf32>>
!t = tensor<2xf32>

plan.plan @view_of_overwritten {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !v
  %z = regst.register "z" alias %x : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = "test.op"() : () -> !t
    plan.yield %0 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !v) {
  ^bb0(%0: !t):
    %1 = op.reshape %0 to [2, 1] : !t -> tensor<2x1xf32>
    plan.yield %1 : tensor<2x1xf32>
  }
  // expected-error@+1 {{verify-plan: registers 'x' and 'z' share 8 bytes, but task 'y' may use 'x' after task 'z' has begun to write 'z'}}
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%z : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "use" on <0, cpu:0> stream <compute, 0> ins(%y : !v) {
  ^bb0(%0: tensor<2x1xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// A view of a variable is fine, but a variable lies on nothing that is written.

!r = !regst.data<tensor<2xf32>>
!v = !regst.data<tensor<2x1xf32>>

plan.plan @variables {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %y = regst.register "y" alias %w : !r slots 1 on <0, host> : !v
  %x = regst.register "x" slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'x' and 'u' share 8 bytes, but 'u' lasts from run to run}}
  %u = regst.register "u" alias %x : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <zeros> : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %0 = job.variable "u" init <zeros> : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%y : !v) {
  ^bb0(%0: tensor<2xf32>):
    %1 = op.reshape %0 to [2, 1] : tensor<2xf32> -> tensor<2x1xf32>
    plan.yield %1 : tensor<2x1xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins(%y : !v) outs(%x : !r) {
  ^bb0(%0: tensor<2x1xf32>):
    %2 = "test.op"() : () -> tensor<2xf32>
    plan.yield %2 : tensor<2xf32>
  }
}

// -----

// A task that computes finds what it uses in the memory that kernels of its device work
// in: for a processor that is all memory of its host, pinned or not. A copy may use any.

!r = !regst.data<tensor<4xf32>>

plan.plan @memory {
  %h = regst.register "h" slots 1 on <0, host> : !r
  %p = regst.register "p" slots 1 on <0, pinned cuda:0> : !r
  %n = regst.register "n" slots 1 on <0, network> : !r
  %d = regst.register "d" slots 1 on <0, device cuda:0> : !r
  %o = regst.register "o" slots 1 on <0, device cuda:1> : !r
  %bad = regst.register "bad" slots 1 on <0, host> : !r
  %f = regst.register "f" slots 1 on <0, device cuda:0> : !r
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins() outs(%h, %p, %n : !r, !r, !r) {
    %v, %w, %u = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
    plan.yield %v, %w, %u : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
  plan.task "copy" on <0, cuda:0> stream <copy_h2d, 0> ins(%p : !r) outs(%d : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cuda:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+3 {{task 'other' works in #regst.memory_case<0, device cuda:1>, but register 'd' lies in #regst.memory_case<0, device cuda:0>}}
  // expected-error@+2 {{task 'other' works in #regst.memory_case<0, device cuda:1>, but register 'bad' lies in #regst.memory_case<0, host>}}
  // expected-error@+1 {{task 'other' works in #regst.memory_case<0, device cuda:1>, but register 'p' lies in #regst.memory_case<0, pinned cuda:0>}}
  plan.task "other" on <0, cuda:1> stream <compute, 0> ins(%d, %p : !r, !r) outs(%o, %bad : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    %v, %w = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>)
    plan.yield %v, %w : tensor<4xf32>, tensor<4xf32>
  }
  // The host feeds an input.
  // expected-error@+1 {{task 'fed' works in #regst.memory_case<0, host>, but register 'f' lies in #regst.memory_case<0, device cuda:0>}}
  plan.task "fed" on <0, cpu:0> stream <compute, 0> ins() outs(%f : !r) {
    %v = job.input "fed" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{task 'near' works in #regst.memory_case<0, host>, but register 'o' lies in #regst.memory_case<0, device cuda:1>}}
  plan.task "near" on <0, cpu:0> stream <compute, 0> ins(%p, %n, %o : !r, !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>, %2: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Registers with several slots may lie on common bytes if the one is done with all of
// them in each act before the other begins; with two tokens on the way back it is not.

!r = !regst.data<tensor<16xf32>>

plan.plan @slots_as_a_whole {
  %c = regst.chunk on <0, host> size 256
  %m = regst.block in %c at 0 size 256
  %x = regst.register "x" in %m at 0 slots 2 on <0, host> : !r
  %a = regst.register "a" in %m at 128 slots 2 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'x' and 'b' share 64 bytes, but task 'b' may use 'b' after task 'x' has begun to write 'x' again}}
  %b = regst.register "b" in %m at 64 slots 1 on <0, host> : !r
  %turn = regst.register "turn" slots 2 initial 2 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%turn : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) signals(%turn : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Where both have as many slots, and each lies on the bytes of the same one, two tokens on
// the way back are few enough: the next act uses the other slot.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @slot_by_slot
plan.plan @slot_by_slot {
  %c = regst.chunk on <0, host> size 256
  %m = regst.block in %c at 0 size 256
  %x = regst.register "x" in %m at 0 slots 2 on <0, host> : !r
  %a = regst.register "a" in %m at 128 slots 2 on <0, host> : !r
  %b = regst.register "b" in %m at 0 slots 2 on <0, host> : !r
  %turn = regst.register "turn" slots 2 initial 2 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%turn : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) signals(%turn : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Events and the order of streams cover what registers order within one act: 'c' follows
// 'a' by way of 'b', but nothing makes 'e' wait for 'd'. What is in flight from the last
// act takes no event.

!r = !regst.data<tensor<16xf32>>

plan.plan @events {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, host> : !r
  %k = regst.register "k" slots 1 initial 1 on <0, host> : !regst.control
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%a : !r) waits(%k : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> order 1 ins() outs(%d : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 1> order 0 ins(%a : !r) attributes {waits_for = ["a"]} {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 1> order 1 ins(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{verify-plan: task 'e' must wait for 'd', but no event says so}}
  plan.task "e" on <0, cpu:0> stream <compute, 1> order 2 ins(%d : !r) signals(%k : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// A plan that counts events has said all of them, be there any or none.

!r = !regst.data<tensor<16xf32>>

plan.plan @no_event attributes {events = {crossing = 1 : i64, needed = 0 : i64}} {
  %a = regst.register "a" slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // expected-error@+1 {{verify-plan: task 'b' must wait for 'a', but no event says so}}
  plan.task "b" on <0, cpu:0> stream <compute, 1> ins(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// A stream that runs a reader before the writer never gets to it.

!r = !regst.data<tensor<16xf32>>

plan.plan @wrong_way attributes {events = {}} {
  %a = regst.register "a" slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 1 ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // expected-error@+1 {{verify-plan: task 'b' must wait for 'a', but its stream runs it first}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 0 ins(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Events are those of tasks that act.

plan.plan @unknown_events {
  %w = regst.register "w" slots 1 on <0, host> : !regst.data<tensor<16xf32>>
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !regst.data<tensor<16xf32>>) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // expected-error@+2 {{verify-plan: task 'a' waits for an event of 'w', which is no task that acts}}
  // expected-error@+1 {{verify-plan: task 'a' waits for an event of 'nobody', which is no task that acts}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() attributes {waits_for = ["w", "nobody"]} {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{verify-plan: waits_for should be a list of names of tasks, got [1 : i64]}}
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() attributes {waits_for = [1]} {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Streams whose tasks wait for each other's events in a circle never go on.

plan.plan @circle {
  // expected-error@+1 {{verify-plan: cycle a -> b -> c -> a of events and the order of streams}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 0 ins() attributes {waits_for = ["c"]} {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 1 ins() {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 1> order 0 ins() attributes {waits_for = ["b"]} {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Who sees a part of a register does not mind what happens to the rest: 'use' may read the
// first half of 'x' after 't' has written over the second one.

!s = !regst.data<tensor<16xf32>>
!w = !regst.data<tensor<32xf32>>
!t = tensor<16xf32>

// CHECK-LABEL: plan.plan @parts_of_views
plan.plan @parts_of_views {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !w
  %h = regst.register "h" alias %x : !w slots 1 on <0, host> : !s
  %s = regst.register "s" alias %x : !w at 64 slots 1 on <0, host> : !s
  %t = regst.register "t" alias %x : !w at 64 slots 1 on <0, host> : !s
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !w) {
    %v = "test.op"() : () -> tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%x : !w) outs(%h : !s) {
  ^bb0(%0: tensor<32xf32>):
    %v = op.slice %0 from [0] to [16] by [1] : tensor<32xf32> -> !t
    plan.yield %v : !t
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !w) outs(%s : !s) {
  ^bb0(%0: tensor<32xf32>):
    %v = op.slice %0 from [16] to [32] by [1] : tensor<32xf32> -> !t
    plan.yield %v : !t
  }
  plan.task "t" on <0, cpu:0> stream <compute, 0> ins(%s : !s) outs(%t : !s) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "use" on <0, cpu:0> stream <compute, 1> ins(%h : !s) {
  ^bb0(%0: !t):
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// A stream starts its tasks in their order, also if no task waits for an event: what has
// to wait for another one, here by way of a second stream, comes after it.

!r = !regst.data<tensor<4xf32>>

plan.plan @misplaced {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: cycle x -> y -> late -> x of registers and the order of streams}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 1 ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 1> order 0 ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = "test.op"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "late" on <0, cpu:0> stream <compute, 0> order 0 ins(%y : !r) {
  ^bb0(%0: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Without registers there is nothing to be checked.

// expected-error@+1 {{verify-plan: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
