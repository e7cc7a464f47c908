// RUN: penstock-opt %s -p 'regst-plan-memory{guard="none"},verify-plan' --split-input-file | filecheck %s --check-prefixes=CHECK,NONE
// RUN: penstock-opt %s -p 'regst-plan-memory{guard="stream"},verify-plan' --split-input-file | filecheck %s --check-prefixes=CHECK,STREAM
// RUN: penstock-opt %s -p 'regst-plan-memory{guard="all"},verify-plan' --split-input-file | filecheck %s --check-prefixes=CHECK,ALL
// RUN: not penstock-opt %s -p 'regst-plan-memory{guard="some"}' --split-input-file 2>&1 | filecheck %s --check-prefix=UNKNOWN

// UNKNOWN: regst-plan-memory: guard must be one of all, bounded, none, stream, got 'some'
// RUN: not penstock-opt %s -p 'regst-plan-memory{guard=streams}' --split-input-file 2>&1 | filecheck %s --check-prefix=NEAR
// NEAR: regst-plan-memory: guard must be one of all, bounded, none, stream, got 'streams', did you mean 'stream'?

// One stream brings data in and takes it out, the other one computes. Without a guard
// nothing is added. As "h" and "k" can share bytes on the second stream alone, it is
// guarded; the first one can go on with other acts, so that what both use is kept. If
// all is guarded, only what one task uses is in use at a time: 128 + 64 bytes at "a". That
// each stream acts in order is enough for it here.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @in_and_out
// NONE-NEXT:   regst.chunk on <0, host> size 384
// NONE-NEXT:   regst.block {{.*}} at 0 size 384 sum 384 bound 192
// NONE-NEXT:   regst.register "x" {{.*}} {kept = "slots: its 2 slots let acts overlap"}
// NONE-NEXT:   regst.register "h" {{.*}} {kept = "acts: nothing orders it and others from one act to the next"}
// NONE-NOT:    !regst.control
// STREAM-NEXT: regst.chunk on <0, host> size 320
// STREAM-NEXT: regst.block {{.*}} at 0 size 256 sum 256 bound 128
// STREAM-NEXT: regst.block {{.*}} at 256 size 64 sum 128 bound 64
// STREAM-NEXT: regst.register "x" {{.*}} {kept = "slots: its 2 slots let acts overlap"}
// STREAM-NEXT: regst.register "h" in %{{[a-z0-9]+}} at 0 slots 1 on <0, host> : !
// STREAM-NEXT: regst.register "g" {{.*}} {kept = "acts: nothing orders it and others from one act to the next"}
// STREAM-NEXT: regst.register "k" in %{{[a-z0-9]+}} at 0
// STREAM-NEXT: regst.register "y" {{.*}} {kept = "acts: nothing orders it and others from one act to the next"}
// STREAM-NEXT: regst.register "d -> a" slots 1 initial 1 on
// STREAM-NOT:  !regst.control>
// ALL-NEXT:    regst.chunk on <0, host> size 192
// ALL-NEXT:    regst.block {{.*}} at 0 size 192 sum 384 bound 192
// ALL-NEXT:    regst.register "x"
// ALL-NEXT:    regst.register "h"
// ALL-NEXT:    regst.register "g"
// ALL-NEXT:    regst.register "k"
// ALL-NEXT:    regst.register "y"
// ALL-NEXT:    regst.register "push -> pull" slots 1 on
// ALL-NEXT:    regst.register "pull -> push" slots 1 initial 1 on
// ALL-NEXT:    regst.register "d -> a" slots 1 initial 1 on
// ALL-NEXT:    plan.task "push"
plan.plan @in_and_out {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  %g = regst.register "g" slots 1 on <0, host> : !r
  %k = regst.register "k" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "push" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 1> ins(%x : !r) outs(%h : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 1> ins(%h : !r) outs(%g : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 1> ins(%g : !r) outs(%k : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 1> ins(%k : !r) outs(%y : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "pull" on <0, cpu:0> stream <compute, 0> ins(%y : !r) {
  ^bb0(%v: tensor<16xf32>):
    "test.op"(%v) : (tensor<16xf32>) -> ()
    plan.yield
  }
}

// -----

// What is made on one stream and read on another one shares bytes with what is only
// made after it has been read, if what is there makes the next act wait for this one:
// no guard is needed.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL:  plan.plan @by_data
// CHECK:        regst.block {{.*}} at 0 size 64 sum 128 bound 64
// CHECK-NEXT:   regst.register "x" {{.*}} at 0
// CHECK-NEXT:   regst.register "y" {{.*}} at 0
// CHECK-NEXT:   regst.register "there" slots 1 on
// CHECK-NEXT:   regst.register "all" slots 1 initial 1 on
// CHECK-NEXT:   plan.task
plan.plan @by_data {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %there = regst.register "there" slots 1 on <0, host> : !regst.control
  %all = regst.register "all" slots 1 initial 1 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%all : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 1> ins(%x : !r) signals(%there : !regst.control) {
  ^bb0(%v: tensor<16xf32>):
    "test.op"(%v) : (tensor<16xf32>) -> ()
    plan.yield
  }
  plan.task "y" on <0, cpu:0> stream <compute, 2> ins() outs(%y : !r) waits(%there : !regst.control) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 3> ins(%y : !r) signals(%all : !regst.control) {
  ^bb0(%v: tensor<16xf32>):
    "test.op"(%v) : (tensor<16xf32>) -> ()
    plan.yield
  }
}

// -----

// Where no bytes are shared, nothing is added, whatever is asked for. The reason of what
// is alone in its memory is that, also where it has several slots.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @alone
// CHECK:       regst.register "x" {{.*}} {kept = "alone: no other register of this memory shares bytes"}
// CHECK-NEXT:  regst.register "empty" {{.*}} {kept = "empty: it has no bytes"}
// CHECK-NEXT:  plan.task
plan.plan @alone {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %e = regst.register "empty" slots 1 on <0, host> : !regst.data<tensor<0xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %e : !r, !regst.data<tensor<0xf32>>) {
    %v, %w = "test.op"() : () -> (tensor<16xf32>, tensor<0xf32>)
    plan.yield %v, %w : tensor<16xf32>, tensor<0xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 1> ins(%x : !r) {
  ^bb0(%v: tensor<16xf32>):
    "test.op"(%v) : (tensor<16xf32>) -> ()
    plan.yield
  }
}

// -----

// What is such that alignment loses the most bytes behind it lies last: of blocks, and of
// what is kept.

!s = !regst.data<tensor<1xf32>>
!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL:  plan.plan @last
// NONE:         regst.block {{.*}} at 0 size 196 sum 196 bound 128
// STREAM-NEXT:  %[[CHUNK:.+]] = regst.chunk on <0, host> size 132
// STREAM-NEXT:  %[[SHARED:.+]] = regst.block in %[[CHUNK]] at 0 size 64 sum 128 bound 64
// STREAM-NEXT:  %[[KEPT:.+]] = regst.block in %[[CHUNK]] at 64 size 68 sum 68 bound 64
// STREAM-NEXT:  regst.register "p" in %[[KEPT]] at 64
plan.plan @last {
  %p = regst.register "p" slots 1 on <0, host> : !s
  %h = regst.register "h" slots 1 on <0, host> : !r
  %g = regst.register "g" slots 1 on <0, host> : !r
  %k = regst.register "k" slots 1 on <0, host> : !r
  plan.task "p" on <0, cpu:0> stream <compute, 1> ins() outs(%p : !s) {
    %v = "test.op"() : () -> tensor<1xf32>
    plan.yield %v : tensor<1xf32>
  }
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins() outs(%h : !r) {
    %w = "test.op"() : () -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "g" on <0, cpu:0> stream <compute, 0> ins(%h : !r) outs(%g : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  plan.task "k" on <0, cpu:0> stream <compute, 0> ins(%g : !r) outs(%k : !r) {
  ^bb0(%v: tensor<16xf32>):
    %w = "test.op"(%v) : (tensor<16xf32>) -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
}
