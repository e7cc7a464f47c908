// RUN: penstock-opt %s -p 'plan-order-tasks{policy=overlap machine="cpu switch_ns=0","cuda switch_ns=0"}' | filecheck %s
// RUN: penstock-opt %s -p 'plan-order-tasks{machine="cpu switch_ns=0","cuda switch_ns=0"}' | filecheck %s --check-prefix=MEMORY

!t = tensor<4xf32>    // 16 bytes
!s = tensor<1xf32>    // 4 bytes
!l = tensor<100xf32>  // 400 bytes

// What a copy waits for runs first, so that the copy and what comes after it run beside
// the rest. Listed as here, "b" ends at 100, "a" at 200, "down" at 300 and "h" at 600;
// with "a" first "h" ends at 500, and "b" at 200.

// CHECK-LABEL: plan.plan @copy
// CHECK-SAME:  order_ns = {source = 600 : i64, ordered = 500 : i64}
// CHECK:         plan.task "a"
// CHECK:         plan.task "b"
plan.plan @copy {
  %b = plan.task "b" on <0, cuda:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %a = plan.task "a" on <0, cuda:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %down = plan.task "down" on <0, cuda:0> stream <copy_d2h, 0> ins(%a : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p: !t):
    %v = job.copy %p to <0, cpu:0> : !t
    plan.yield %v : !t
  }
  %h = plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%down : !t) -> !t attributes {time_ns = 300 : i64} {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
}

// Of orders that end at once the one with the fewest bytes is taken: "free" right after
// "g", or 16 + 400 + 400 bytes are alive instead of 16 + 400 + 4.

// CHECK-LABEL: plan.plan @as_fast
// CHECK-SAME:  {live_bytes = {source = 816 : i64, ordered = 420 : i64, lower_limit = 404 : i64}, order_ns = {source = 400 : i64, ordered = 400 : i64}}
plan.plan @as_fast {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 0 : i64} {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %g = plan.task "g" on <0, cpu:0> stream <compute, 0> ins() -> !l attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %m = plan.task "m" on <0, cpu:0> stream <compute, 0> ins() -> !l attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %free = plan.task "free" on <0, cpu:0> stream <compute, 0> ins(%g : !l) -> !s attributes {collective = "all_reduce", time_ns = 100 : i64} {
  ^bb0(%p: !l):
    %v = op.slice %p from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !t) attributes {time_ns = 100 : i64} {
  ^bb0(%p: !t):
    job.output "y", %p : !t
    plan.yield
  }
}

// Where several devices compute, parts of one op move together: what was read first is
// freed first, on both devices. Listed as here, each has 400 + 400 + 4 bytes; as it is
// ordered 400 + 4. Neither takes longer.

// MEMORY-LABEL: plan.plan @together
// MEMORY-SAME:  {live_bytes = {source = 1608 : i64, ordered = 808 : i64, lower_limit = 808 : i64}, order_ns = {source = 400 : i64, ordered = 400 : i64}}
// MEMORY:         plan.task "a@0.cpu.0"
// MEMORY:         plan.task "a@0.cpu.1"
// MEMORY:         plan.task "ua@0.cpu.0"
// MEMORY:         plan.task "ua@0.cpu.1"
// MEMORY:         plan.task "b@0.cpu.0"
// MEMORY:         plan.task "b@0.cpu.1"
// MEMORY:         plan.task "ub@0.cpu.0"
// MEMORY:         plan.task "ub@0.cpu.1"
plan.plan @together {
  %a0 = plan.task "a@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() -> !l attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %a1 = plan.task "a@0.cpu.1" on <0, cpu:1> stream <compute, 0> ins() -> !l attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %b0 = plan.task "b@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() -> !l attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %b1 = plan.task "b@0.cpu.1" on <0, cpu:1> stream <compute, 0> ins() -> !l attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %ua0 = plan.task "ua@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins(%a0 : !l) -> !s attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
  %ua1 = plan.task "ua@0.cpu.1" on <0, cpu:1> stream <compute, 0> ins(%a1 : !l) -> !s attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
  %ub0 = plan.task "ub@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins(%b0 : !l) -> !s attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
  %ub1 = plan.task "ub@0.cpu.1" on <0, cpu:1> stream <compute, 0> ins(%b1 : !l) -> !s attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
}

// "c" on the second device frees what "a" on the first one makes: before "m" that saves 16
// of 448 bytes. It does not run before "b", though: that would have the second device wait
// for "a", and end at 2100.

// MEMORY-LABEL: plan.plan @not_idle
// MEMORY-SAME:  {live_bytes = {source = 448 : i64, ordered = 432 : i64, lower_limit = 432 : i64}, order_ns = {source = 1200 : i64, ordered = 1200 : i64}}
// MEMORY:         plan.task "b"
// MEMORY:         plan.task "c"
// MEMORY:         plan.task "m"
plan.plan @not_idle {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !l attributes {time_ns = 1000 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %z = plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%a : !l) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [4] by [1] : !l -> !t
    plan.yield %v : !t
  }
  %m = plan.task "m" on <0, cpu:0> stream <compute, 0> ins(%z : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.slice %p0 from [0] to [4] by [1] : !t -> !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:1> stream <compute, 0> ins() -> !t attributes {time_ns = 1000 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %c = plan.task "c" on <0, cpu:1> stream <compute, 0> ins(%a : !l) -> !s attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
}

// What saves a share of the bytes may not cost a greater share of the time. To free "p"
// before "q" is there would save 16 of 420 bytes, but the second device, which waits for
// "q", would end at 1100 instead of 1000.

// MEMORY-LABEL: plan.plan @too_slow
// MEMORY-SAME:  {live_bytes = {source = 420 : i64, ordered = 420 : i64, lower_limit = 404 : i64}, order_ns = {source = 1000 : i64, ordered = 1000 : i64}}
plan.plan @too_slow {
  %p = plan.task "p" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 0 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %q = plan.task "q" on <0, cpu:0> stream <compute, 0> ins() -> !l attributes {time_ns = 0 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %d = plan.task "d" on <0, cpu:1> stream <compute, 0> ins(%q : !l) -> !s attributes {time_ns = 1000 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
  %r = plan.task "r" on <0, cpu:0> stream <compute, 0> ins(%p : !t) -> !s attributes {time_ns = 100 : i64} {
  ^bb0(%p0: !t):
    %v = op.slice %p0 from [0] to [1] by [1] : !t -> !s
    plan.yield %v : !s
  }
}

// If "r" takes 10 instead of 100, it pays off: 4 % less bytes for 1 % more time.

// MEMORY-LABEL: plan.plan @worth_it
// MEMORY-SAME:  {live_bytes = {source = 420 : i64, ordered = 404 : i64, lower_limit = 404 : i64}, order_ns = {source = 1000 : i64, ordered = 1010 : i64}}
// MEMORY:         plan.task "r"
// MEMORY:         plan.task "q"
plan.plan @worth_it {
  %p = plan.task "p" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 0 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %q = plan.task "q" on <0, cpu:0> stream <compute, 0> ins() -> !l attributes {time_ns = 0 : i64} {
    %v = op.constant dense<1.0> : !l
    plan.yield %v : !l
  }
  %d = plan.task "d" on <0, cpu:1> stream <compute, 0> ins(%q : !l) -> !s attributes {time_ns = 1000 : i64} {
  ^bb0(%p0: !l):
    %v = op.slice %p0 from [0] to [1] by [1] : !l -> !s
    plan.yield %v : !s
  }
  %r = plan.task "r" on <0, cpu:0> stream <compute, 0> ins(%p : !t) -> !s attributes {time_ns = 10 : i64} {
  ^bb0(%p0: !t):
    %v = op.slice %p0 from [0] to [1] by [1] : !t -> !s
    plan.yield %v : !s
  }
}
