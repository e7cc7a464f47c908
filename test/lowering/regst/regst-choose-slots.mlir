// RUN: penstock-opt %s -p 'regst-choose-slots{machine="cuda switch_ns=0"}' | filecheck %s
// RUN: penstock-opt %s -p 'regst-choose-slots{machine="cuda switch_ns=0"},regst-choose-slots{machine="cuda switch_ns=0"}' | filecheck %s
// RUN: penstock-opt %s -p 'regst-choose-slots{interval-ns=30 machine="cuda switch_ns=0"}' | filecheck %s --check-prefix=FAST
// RUN: penstock-opt %s -p 'regst-choose-slots{memory-limit=320 device-memory-limit=1024 machine="cuda switch_ns=0"}' | filecheck %s --check-prefix=TIGHT
// RUN: penstock-opt %s -p 'regst-choose-slots{memory-limit=319 device-memory-limit=1024 machine="cuda switch_ns=0"}' 2>&1 | filecheck %s --check-prefix=DEVICE
// RUN: not penstock-opt %s -p 'regst-choose-slots{memory-limit=320 machine="cuda switch_ns=0"}' 2>&1 | filecheck %s --check-prefix=ALL
// RUN: not penstock-opt %s -p 'regst-choose-slots{interval-ns=0}' 2>&1 | filecheck %s --check-prefix=ZERO
// RUN: not penstock-opt %s -p 'regst-choose-slots{memory-limit=-1}' 2>&1 | filecheck %s --check-prefix=LIMIT
// RUN: not penstock-opt %s -p 'regst-choose-slots{device-memory-limit="4GB"}' 2>&1 | filecheck %s --check-prefix=UNIT
// RUN: penstock-opt %s -p 'regst-choose-slots{memory-limit=320 device-memory-limit=1K machine="cuda switch_ns=0"}' | filecheck %s --check-prefix=TIGHT

// ALL:  regst-choose-slots: memory <0, device cuda:0> takes 1024 bytes with as few slots as can be, but the limit is 320; most of it is for 'y' 1024
// ZERO: regst-choose-slots: interval-ns must be at least 1, got 0
// LIMIT: regst-choose-slots: memory-limit must be a size such as 4G, got -1
// UNIT: regst-choose-slots: device-memory-limit must be a size such as 4G, got 4GB

!r = !regst.data<tensor<16xf32>>

// Stream 0 takes 50 ns an act and stream 1 takes 40, so that an act can begin every 50 ns.
// "x" is in use from 0 to 20, "h" from 10 to 50, "g" from 20 until "y" ends at 90: 70 ns are
// two intervals of 50, or three of 30. "y" asks for its slots and gets these; variables and
// control registers keep theirs.

// CHECK-LABEL:  plan.plan @two_streams
// CHECK-SAME:   interval_ns = {busiest = 50 : i64, chosen = 50 : i64}
// FAST-LABEL:   plan.plan @two_streams
// FAST-SAME:    interval_ns = {busiest = 50 : i64, chosen = 30 : i64}

// On the host "w" takes 64 bytes, and "x" and "h", or "h" and "g", 128 more at once. A second
// slot of "g", which is then alive all the time, makes this 320: with a limit of 319 an act
// begins every 70 ns, which is enough for one. "y", on the device, has a limit of its own.

// TIGHT-LABEL:  plan.plan @two_streams
// TIGHT-SAME:   chosen = 50 : i64
// DEVICE-LABEL: plan.plan @two_streams
// DEVICE-SAME:  chosen = 70 : i64
plan.plan @two_streams {
  // CHECK: regst.register "w" slots 1
  // CHECK: regst.register "x" slots 1
  // CHECK: regst.register "h" slots 1
  // CHECK: regst.register "g" slots 2
  // CHECK: regst.register "y" slots 2
  // CHECK: regst.register "k" slots 4
  // FAST:  regst.register "x" slots 1
  // FAST:  regst.register "h" slots 2
  // FAST:  regst.register "g" slots 3
  // TIGHT:  regst.register "g" slots 2
  // DEVICE: regst.register "g" slots 1
  %w = regst.register "w" slots 1 on <0, host> : !r
  %x = regst.register "x" slots 3 on <0, host> : !r
  %h = regst.register "h" slots 2 on <0, host> : !r
  %g = regst.register "g" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, device cuda:0> : !r
  %k = regst.register "k" slots 4 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) attributes {time_ns = 10 : i64} {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%h : !r) attributes {time_ns = 10 : i64} {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%h, %w : !r, !r) outs(%g : !r) attributes {time_ns = 30 : i64} {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "y" on <0, cuda:0> stream <compute, 1> ins(%g : !r) outs(%y : !r) signals(%k : !regst.control) attributes {slots = 2 : i64, time_ns = 40 : i64} {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// Aliases have the slots of what they lie on, which is in use from the start of "a" to the
// end of "c": 30 ns, where the stream takes 30. A part of a register has its slots at other
// places, so that these stay. A register that nobody reads is in use while it is written.

// CHECK-LABEL: plan.plan @aliases
// CHECK-SAME:  interval_ns = {busiest = 30 : i64, chosen = 30 : i64}
// FAST-LABEL:  plan.plan @aliases
// DEVICE-LABEL: plan.plan @aliases
plan.plan @aliases {
  // CHECK: regst.register "a" slots 1
  // CHECK: regst.register "b" alias {{.*}} slots 1
  // CHECK: regst.register "whole" slots 1
  // CHECK: regst.register "part" alias {{.*}} slots 1
  // CHECK: regst.register "unread" slots 1
  %a = regst.register "a" slots 2 on <0, host> : !r
  %b = regst.register "b" alias %a : !r slots 2 on <0, host> : !r
  %whole = regst.register "whole" slots 1 on <0, host> : !regst.data<tensor<32xf32>>
  %part = regst.register "part" alias %whole : !regst.data<tensor<32xf32>> at 64 slots 1 on <0, host> : !r
  %unread = regst.register "unread" slots 3 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a, %whole, %part, %unread : !r, !regst.data<tensor<32xf32>>, !r, !r) attributes {time_ns = 10 : i64} {
    %v, %w, %u, %t = "test.op"() : () -> (tensor<16xf32>, tensor<32xf32>, tensor<16xf32>, tensor<16xf32>)
    plan.yield %v, %w, %u, %t : tensor<16xf32>, tensor<32xf32>, tensor<16xf32>, tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) attributes {time_ns = 10 : i64} {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%b, %part : !r, !r) attributes {time_ns = 10 : i64} {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// Acts that begin more often than the stream allows need more slots for "a" and "b" alike,
// but "whole" and "part" have one still.

// CHECK-LABEL: plan.plan @often
// FAST-LABEL:  plan.plan @often
// FAST:        regst.register "a" slots 3
// FAST:        regst.register "b" alias {{.*}} slots 3
// FAST:        regst.register "whole" slots 1
// FAST:        regst.register "part" alias {{.*}} slots 1
plan.plan @often {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" alias %a : !r slots 1 on <0, host> : !r
  %whole = regst.register "whole" slots 1 on <0, host> : !regst.data<tensor<32xf32>>
  %part = regst.register "part" alias %whole : !regst.data<tensor<32xf32>> at 64 slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a, %whole, %part : !r, !regst.data<tensor<32xf32>>, !r) attributes {time_ns = 30 : i64} {
    %v, %w, %u = "test.op"() : () -> (tensor<16xf32>, tensor<32xf32>, tensor<16xf32>)
    plan.yield %v, %w, %u : tensor<16xf32>, tensor<32xf32>, tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) attributes {time_ns = 30 : i64} {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%b, %part : !r, !r) attributes {time_ns = 30 : i64} {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// Once there are blocks, the slots have their places.

// CHECK-LABEL: plan.plan @placed
// CHECK-NOT:   interval_ns
plan.plan @placed {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  // CHECK: regst.register "a" in {{.*}} slots 2
  %a = regst.register "a" in %m at 0 slots 2 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// An interface has one slot, where another register has two.

// CHECK-LABEL: plan.plan @interface
// FAST-LABEL: plan.plan @interface
// FAST:       regst.register "a" slots 2
// FAST-NEXT:  regst.register "i" slots 1
plan.plan @interface {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %i = regst.register "i" slots 1 interface "i" on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a, %i : !r, !r) attributes {time_ns = 30 : i64} {
    %v, %w = "test.op"() : () -> (tensor<16xf32>, tensor<16xf32>)
    plan.yield %v, %w : tensor<16xf32>, tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a, %i : !r, !r) attributes {time_ns = 30 : i64} {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}
