// RUN: penstock-opt %s -p regst-plan-memory --split-input-file | filecheck %s
// RUN: penstock-opt %s -p regst-plan-memory,regst-plan-memory,verify-plan --split-input-file | filecheck %s

// Registers that are not needed at the same time share bytes. What a task reads and
// what it writes are. The last task acts before the first acts again; data orders the
// others.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @chain
plan.plan @chain {
  // Three of 64 bytes, of which two are needed at a time.
  // CHECK-NEXT: %[[CHUNK:.+]] = regst.chunk on <0, host> size 128
  // CHECK-NEXT: %[[BLOCK:.+]] = regst.block in %[[CHUNK]] at 0 size 128 sum 192 bound 128
  // CHECK-NEXT: regst.register "x" in %[[BLOCK]] at 0
  %x = regst.register "x" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "a" in %[[BLOCK]] at 64
  %a = regst.register "a" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "b" in %[[BLOCK]] at 0
  %b = regst.register "b" slots 1 on <0, host> : !r
  // CHECK-NEXT: %[[GUARD:.+]] = regst.register "y -> x" slots 1 initial 1 on <0, host> : !regst.control
  // CHECK-NEXT: plan.task "x" {{.*}} waits(%[[GUARD]] : !regst.control) {
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // CHECK: plan.task "a" {{.*}} outs(%{{[a-z0-9]+}} : !regst.data<tensor<16xf32>>) {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  // CHECK: plan.task "b" {{.*}} outs(%{{[a-z0-9]+}} : !regst.data<tensor<16xf32>>) {
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  // CHECK: plan.task "y" {{.*}} signals(%[[GUARD]] : !regst.control) {
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%b : !r) {
  ^bb0(%v: tensor<16xf32>):
    "test.op"(%v) : (tensor<16xf32>) -> ()
    plan.yield
  }
}

// -----

// Where registers share bytes, tasks that no data orders are ordered by control. What
// nobody reads has a place while it is written. `order` counts, not the list.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @control
plan.plan @control {
  // CHECK:      regst.block {{.*}} size 64 sum 192 bound 64
  // CHECK-NEXT: regst.register "a" in %{{.+}} at 0
  %a = regst.register "a" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "b" in %{{.+}} at 0
  %b = regst.register "b" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "c" in %{{.+}} at 0
  %c = regst.register "c" slots 1 on <0, host> : !r
  // CHECK-NEXT: %[[CB:.+]] = regst.register "c -> b" slots 1 on <0, host> : !regst.control
  // CHECK-NEXT: %[[BA:.+]] = regst.register "b -> a" slots 1 on <0, host> : !regst.control
  // CHECK-NEXT: %[[AC:.+]] = regst.register "a -> c" slots 1 initial 1 on <0, host> : !regst.control
  // CHECK-NEXT: plan.task "a" {{.*}} waits(%[[BA]] : !regst.control) signals(%[[AC]] : !regst.control) {
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 7 ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // CHECK: plan.task "b" {{.*}} waits(%[[CB]] : !regst.control) signals(%[[BA]] : !regst.control) {
  plan.task "b" on <0, cpu:0> stream <compute, 0> order 3 ins() outs(%b : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // CHECK: plan.task "c" {{.*}} waits(%[[AC]] : !regst.control) signals(%[[CB]] : !regst.control) {
  plan.task "c" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%c : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Control that is there is not added again, and keeps its name.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @control_is_there
plan.plan @control_is_there {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  // CHECK: %[[AB:.+]] = regst.register "b -> a" slots 2 on
  %k = regst.register "b -> a" slots 2 on <0, host> : !regst.control
  // CHECK-NEXT: %[[BA:.+]] = regst.register "b -> a_1" slots 1 initial 1 on
  // CHECK-NEXT: plan.task "a" {{.*}} waits(%[[BA]] : !regst.control) signals(%[[AB]] : !regst.control) {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) signals(%k : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // CHECK: plan.task "b" {{.*}} waits(%[[AB]] : !regst.control) signals(%[[BA]] : !regst.control) {
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !r) waits(%k : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// The only slot of what the last task reads from the first is control enough: the first
// cannot act again before it is free.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @credit
plan.plan @credit {
  %a = regst.register "a" slots 1 on <0, host> : !r
  // CHECK: regst.register "b" in %{{.+}} at 64
  %b = regst.register "b" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "c" in %{{.+}} at 64
  %c = regst.register "c" slots 1 on <0, host> : !r
  // CHECK-NEXT: %[[BC:.+]] = regst.register "b -> c" slots 1 on
  // CHECK-NEXT: plan.task "a" {{.*}} outs(%{{[a-z0-9]+}} : !regst.data<tensor<16xf32>>) {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  // CHECK: plan.task "c" {{.*}} waits(%[[BC]] : !regst.control) {
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%c : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
}

// -----

// Two slots are not: the first task may be one act ahead.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @two_credits
plan.plan @two_credits {
  %a = regst.register "a" slots 2 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  // CHECK:      regst.register "b -> c" slots 1 on
  // CHECK-NEXT: regst.register "c -> a" slots 1 initial 1 on
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%c : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
}

// -----

// Where no bytes are shared, tasks run as they can.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @no_sharing
// CHECK-NOT: !regst.control
plan.plan @no_sharing {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
}

// -----

// The largest is placed first; the bound counts all but the last filled up to the alignment.

!s = !regst.data<tensor<1xf32>>
!l = !regst.data<tensor<17xf32>>

// CHECK-LABEL: plan.plan @largest_first
plan.plan @largest_first {
  // 68 bytes, rounded up to 128, then 4; all three side by side with another 64 between.
  // CHECK:      regst.block {{.*}} size 132 sum 196 bound 132
  // CHECK-NEXT: regst.register "a" in %{{.+}} at 128
  %a = regst.register "a" slots 1 on <0, host> : !s
  // CHECK-NEXT: regst.register "b" in %{{.+}} at 0
  %b = regst.register "b" slots 1 on <0, host> : !l
  // CHECK-NEXT: regst.register "c" in %{{.+}} at 128
  %c = regst.register "c" slots 1 on <0, host> : !s
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !s) {
    %v = "test.op"() : () -> tensor<1xf32>
    plan.yield %v : tensor<1xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !s) outs(%b : !l) {
  ^bb0(%v: tensor<1xf32>):
    %w = "test.op"(%v) : (tensor<1xf32>) -> tensor<17xf32>
    plan.yield %w : tensor<17xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%b : !l) outs(%c : !s) {
  ^bb0(%v: tensor<17xf32>):
    %w = "test.op"(%v) : (tensor<17xf32>) -> tensor<1xf32>
    plan.yield %w : tensor<1xf32>
  }
}

// -----

// A chunk holds variables first, then what is kept apart, then what shares bytes: also
// what tasks of two streams use, and what has several slots, all of which count. "b" is
// in use while any other register may be. Variables take no part in order or control.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @blocks
plan.plan @blocks {
  // CHECK-NEXT: %[[CHUNK:.+]] = regst.chunk on <0, host> size 448
  // CHECK-NEXT: %[[VARIABLES:.+]] = regst.block in %[[CHUNK]] at 0 size 128 sum 128 bound 128
  // CHECK-NEXT: %[[KEPT:.+]] = regst.block in %[[CHUNK]] at 128 size 64 sum 64 bound 64
  // CHECK-NEXT: %[[SHARED:.+]] = regst.block in %[[CHUNK]] at 192 size 256 sum 448 bound 256
  // CHECK-NEXT: regst.register "own" in %[[SHARED]] at 0 slots 1 on <0, host> : !
  %own = regst.register "own" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "two_slots" in %[[SHARED]] at 0
  %two_slots = regst.register "two_slots" slots 2 on <0, host> : !r
  // CHECK-NEXT: regst.register "w" in %[[VARIABLES]] at 0
  %w = regst.register "w" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "k" in %[[VARIABLES]] at 64
  %k = regst.register "k" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "crosses" in %[[SHARED]] at 192
  %crosses = regst.register "crosses" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "comes_back" in %[[SHARED]] at 64
  %comes_back = regst.register "comes_back" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "a" in %[[SHARED]] at 128
  %a = regst.register "a" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "b" in %[[KEPT]] at 0 slots 1 on <0, host> {kept = "together: all others may be in use with it in one act"} : !
  %b = regst.register "b" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "c" in %[[SHARED]] at 0
  %c = regst.register "c" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "c -> a" slots 1 initial 1 on
  // CHECK-NOT:  regst.register
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "k" on <0, cpu:0> stream <compute, 0> ins() outs(%k : !r) {
    %v = op.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0]> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a, %two_slots : !r, !r) {
    %v, %u = "test.op"() : () -> (tensor<16xf32>, tensor<16xf32>)
    plan.yield %v, %u : tensor<16xf32>, tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a, %w, %k, %two_slots : !r, !r, !r, !r) outs(%b, %crosses : !r, !r) {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>, %2: tensor<16xf32>, %3: tensor<16xf32>):
    %v, %u = "test.op"() : () -> (tensor<16xf32>, tensor<16xf32>)
    plan.yield %v, %u : tensor<16xf32>, tensor<16xf32>
  }
  plan.task "second" on <0, cpu:0> stream <compute, 1> ins(%crosses : !r) outs(%own, %comes_back : !r, !r) {
  ^bb0(%0: tensor<16xf32>):
    %v, %u = "test.op"() : () -> (tensor<16xf32>, tensor<16xf32>)
    plan.yield %v, %u : tensor<16xf32>, tensor<16xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%b, %comes_back : !r, !r) outs(%c : !r) {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Each memory case has a chunk, and a device's memory a larger alignment.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @cases
plan.plan @cases {
  // CHECK-NEXT: %[[PINNED:.+]] = regst.chunk on <0, pinned cuda:0> size 64
  // CHECK-NEXT: %[[KEPT:.+]] = regst.block in %[[PINNED]] at 0 size 64
  // CHECK-NEXT: %[[DEVICE:.+]] = regst.chunk on <0, device cuda:0> size 1088
  // CHECK-NEXT: %[[VARIABLES:.+]] = regst.block in %[[DEVICE]] at 0 size 64
  // CHECK-NEXT: %[[SLOTS:.+]] = regst.block in %[[DEVICE]] at 512 size 576 sum 576 bound 576
  // CHECK-NEXT: regst.register "x" in %[[KEPT]] at 0
  %x = regst.register "x" slots 1 on <0, pinned cuda:0> : !r
  // CHECK-NEXT: regst.register "d" in %[[SLOTS]] at 0 slots 2
  %d = regst.register "d" slots 2 on <0, device cuda:0> : !r
  // CHECK-NEXT: regst.register "w" in %[[VARIABLES]] at 0
  %w = regst.register "w" slots 1 on <0, device cuda:0> : !r
  plan.task "w" on <0, cuda:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "d" on <0, cuda:0> stream <copy_h2d, 0> ins(%x : !r) outs(%d : !r) {
  ^bb0(%a: tensor<16xf32>):
    %v = job.copy %a to <0, cuda:0> : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// An alias has no place of its own; who reads it needs what it stands for.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @alias
plan.plan @alias {
  // CHECK: regst.block {{.*}} size 128 sum 192 bound 128
  // CHECK: %[[X:.+]] = regst.register "x" in %{{.+}} at 0
  %x = regst.register "x" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "over" alias %[[X]]
  %over = regst.register "over" alias %x : !r slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "a" in %{{.+}} at 64
  %a = regst.register "a" slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "b" in %{{.+}} at 64
  %b = regst.register "b" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "over" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%over : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%over : !r) outs(%b : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// A plan that has blocks is left alone, whatever its layout.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @planned
plan.plan @planned {
  // CHECK-NEXT: %[[CHUNK:.+]] = regst.chunk on <0, host> size 1024
  %c = regst.chunk on <0, host> size 1024
  // CHECK-NEXT: %[[BLOCK:.+]] = regst.block in %[[CHUNK]] at 512 size 512{{$}}
  %b = regst.block in %c at 512 size 512
  // CHECK-NEXT: regst.register "x" in %[[BLOCK]] at 256
  %x = regst.register "x" in %b at 256 slots 1 on <0, host> : !r
  // CHECK-NEXT: regst.register "y" in %[[BLOCK]] at 384
  %y = regst.register "y" in %b at 384 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %y : !r, !r) {
    %v, %w = "test.op"() : () -> (tensor<16xf32>, tensor<16xf32>)
    plan.yield %v, %w : tensor<16xf32>, tensor<16xf32>
  }
}

// -----

// A plan without registers has nothing to place.

// CHECK-LABEL: plan.plan @nothing
// CHECK-NEXT:  plan.task "a"
plan.plan @nothing {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

// -----

// Interfaces are kept, although their bytes are free for a time.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @interface
// CHECK:         %[[KEPT:.+]] = regst.block in %{{.+}} at 0 size 192 sum 192 bound 192
// CHECK:         regst.register "x" in %[[KEPT]] at 0 slots 1 interface "x" {{.*}} {kept = "interface: it has bytes that several jobs know"}
plan.plan @interface {
  %x = regst.register "x" slots 1 interface "x" on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
}
