// RUN: penstock-opt %s -p plan-merge-jobs --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-merge-jobs,plan-merge-jobs,verify-plan --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'plan-merge-jobs{plan-name="all" alone=true}' --split-input-file | filecheck %s --check-prefix=ALONE

// A variable of two jobs is one register, of no job. What is an interface for both lies in
// one block, of its own chunk. Everything else gets the name of its job, also where tasks
// name each other; in one stream the tasks of the second job follow those of the first, and
// so do the numbers of chains. What registers leave behind is closed.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

// CHECK-LABEL: plan.plan @main exclusive {{\[\["a", "b"\]\]}} attributes {jobs = {a = {acme.origin = "a.onnx"}, b = {}}} {
// CHECK-NEXT:    %[[LASTING:.+]] = regst.chunk on <0, host> size 256
// CHECK-NEXT:    %[[A_VARIABLES:.+]] = regst.block in %[[LASTING]] at 0 size 128 sum 128 bound 128
// CHECK-NEXT:    %[[B_VARIABLES:.+]] = regst.block in %[[LASTING]] at 128 size 64 sum 64 bound 64
// CHECK-NEXT:    %[[X:.+]] = regst.block in %[[LASTING]] at 192 size 64 sum 64 bound 64
// CHECK-NEXT:    %[[CHUNK:.+]] = regst.chunk on <0, host> size 128
// CHECK-NEXT:    %[[A:.+]] = regst.block in %[[CHUNK]] at 0 size 128 sum 192 bound 64
// CHECK-NEXT:    %[[B:.+]] = regst.block in %[[CHUNK]] at 0 size 64 sum 64 bound 64

// CHECK-NEXT:    %[[W:.+]] = regst.register "w/out" in %[[A_VARIABLES]] at 0 slots 1
// CHECK-NEXT:    %[[AX:.+]] = regst.register "a/x/out" in %[[X]] at 0 slots 1 interface "x"
// CHECK-NEXT:    regst.register "a/v/out" in %[[A_VARIABLES]] at 64 slots 1
// CHECK-NEXT:    %[[AP:.+]] = regst.register "a/p/out" in %[[A]] at 64 slots 1
// CHECK-NEXT:    %[[K:.+]] = regst.register "a/go" slots 1
// CHECK-NEXT:    regst.register "b/u/out" in %[[B_VARIABLES]] at 0 slots 1
// CHECK-NEXT:    regst.register "b/x/out" in %[[X]] at 0 slots 1 interface "x"
// CHECK-NEXT:    regst.register "b/p/out" in %[[B]] at 0 slots 1
// CHECK-NEXT:    regst.register "b/q/out" alias %[[W]]

// CHECK-NEXT:    plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%[[W]] :
// CHECK:         plan.task "a/v" job "a" on
// CHECK:         plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> chain 1 order 0 ins() outs(%[[AX]] :
// CHECK:         plan.task "a/p" job "a" on <0, cpu:0> stream <compute, 0> chain 1 order 5 ins(%[[AX]], %[[W]] : {{.*}}) outs(%[[AP]] : {{.*}}) attributes {waits_for = ["a/x"]} {
// CHECK:         plan.task "b/u" job "b" on
// CHECK:         plan.task "b/x" job "b" on <0, cpu:0> stream <compute, 0> chain 2 order 6 ins()
// CHECK:         plan.task "b/p" job "b" on <0, cpu:0> stream <compute, 0> chain 3 order 7 ins({{.*}}, %[[W]] :
// CHECK-NOT:     plan.plan

// ALONE-LABEL: plan.plan @all exclusive
plan.plan @a attributes {acme.origin = "a.onnx"} {
  %c = regst.chunk on <0, host> size 320
  %m = regst.block in %c at 0 size 192 sum 192 bound 192
  %n = regst.block in %c at 192 size 128 sum 192 bound 100
  %w = regst.register "w/out" in %m at 0 slots 1 on <0, host> : !r
  %x = regst.register "x/out" in %m at 64 slots 1 interface "x" on <0, host> : !r
  %u = regst.register "v/out" in %m at 128 slots 1 on <0, host> : !r
  %p = regst.register "p/out" in %n at 64 slots 1 on <0, host> : !r
  %k = regst.register "go" slots 1 on <0, host> : !regst.control
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %v = job.variable "v" init <ones> : !t
    plan.yield %v : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> chain 1 order 0 ins() outs(%x : !r) signals(%k : !regst.control) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "p" on <0, cpu:0> stream <compute, 0> chain 1 order 5 ins(%x, %w : !r, !r) outs(%p : !r) waits(%k : !regst.control) attributes {waits_for = ["x"]} {
  ^bb0(%0: !t, %1: !t):
    %v = op.add %0, %1 : !t, !t -> !t
    plan.yield %v : !t
  }
}

// In the second job a view of "w" is one of the first job's register then.

plan.plan @b {
  %c = regst.chunk on <0, host> size 256
  %m = regst.block in %c at 0 size 128 sum 128 bound 128
  %n = regst.block in %c at 128 size 128 sum 128 bound 128
  %u = regst.register "u/out" in %m at 64 slots 1 on <0, host> : !r
  %w = regst.register "w/out" in %m at 0 slots 1 on <0, host> : !r
  %x = regst.register "x/out" in %n at 0 slots 1 interface "x" on <0, host> : !r
  %p = regst.register "p/out" in %n at 64 slots 1 on <0, host> : !r
  %q = regst.register "q/out" alias %w : !r slots 1 on <0, host> : !regst.data<tensor<4x4xf32>>
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %v = job.variable "u" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> chain 0 order 0 ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "p" on <0, cpu:0> stream <compute, 0> chain 1 order 1 ins(%x, %w : !r, !r) outs(%p : !r) {
  ^bb0(%0: !t, %1: !t):
    %v = op.add %0, %1 : !t, !t -> !t
    plan.yield %v : !t
  }
  plan.task "q" on <0, cpu:0> stream <compute, 0> chain 1 order 2 ins(%w : !r) outs(%q : !regst.data<tensor<4x4xf32>>) {
  ^bb0(%0: !t):
    %v = op.reshape %0 to [4, 4] : !t -> tensor<4x4xf32>
    plan.yield %v : tensor<4x4xf32>
  }
}

// -----

// A plan that is alone stays as it is, unless it is asked for.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @alone {
// CHECK-NEXT:    %[[CHUNK:.+]] = regst.chunk on <0, host> size 64
// CHECK-NEXT:    %[[BLOCK:.+]] = regst.block in %[[CHUNK]] at 0 size 64
// CHECK-NEXT:    regst.register "x" in %[[BLOCK]] at 0
// CHECK:         plan.task "x" on
// ALONE-LABEL: plan.plan @all attributes {jobs = {alone = {}}} {
// ALONE:         regst.register "alone/x"
// ALONE:         plan.task "alone/x" job "alone"
plan.plan @alone {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// What is shared keeps its order in a block: "b" was below "a" and still is, while "c", which
// shared bytes with both, sinks to the first byte. Jobs without a common name may run at the
// same time, and have a chunk each.

!r = !regst.data<tensor<16xf32>>
!s = !regst.data<tensor<32xf32>>

// CHECK-LABEL: plan.plan @main attributes
// CHECK-NEXT:    %[[LASTING:.+]] = regst.chunk on <0, host> size 64
// CHECK-NEXT:    %[[X:.+]] = regst.block in %[[LASTING]] at 0 size 64
// CHECK-NEXT:    %[[CHUNK:.+]] = regst.chunk on <0, host> size 128
// CHECK-NEXT:    %[[BLOCK:.+]] = regst.block in %[[CHUNK]] at 0 size 128 sum 256 bound 128
// CHECK-NEXT:    %[[OTHER:.+]] = regst.chunk on <0, device cuda:0> size 64
// CHECK:         regst.register "one/i" in %[[X]] at 0
// CHECK-NEXT:    regst.register "one/a" in %[[BLOCK]] at 64
// CHECK-NEXT:    regst.register "one/b" in %[[BLOCK]] at 0
// CHECK-NEXT:    regst.register "one/c" in %[[BLOCK]] at 0
plan.plan @one {
  %c = regst.chunk on <0, host> size 192
  %m = regst.block in %c at 0 size 192 sum 320 bound 192
  %i = regst.register "i" in %m at 0 slots 1 interface "i" on <0, host> : !r
  %a = regst.register "a" in %m at 128 slots 1 on <0, host> : !r
  %b = regst.register "b" in %m at 64 slots 1 on <0, host> : !r
  %d = regst.register "c" in %m at 64 slots 1 on <0, host> : !s
  %go = regst.register "go" slots 1 on <0, host> : !regst.control
  %back = regst.register "back" slots 1 initial 1 on <0, host> : !regst.control
  plan.task "i" on <0, cpu:0> stream <compute, 0> ins() outs(%i, %a, %b : !r, !r, !r) waits(%back : !regst.control) {
    %u, %v, %w = "test.op"() : () -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
    plan.yield %u, %v, %w : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
  }
  plan.task "use" on <0, cpu:0> stream <compute, 0> ins(%i, %a, %b : !r, !r, !r) signals(%go : !regst.control) {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>, %2: tensor<16xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins() outs(%d : !s) waits(%go : !regst.control) signals(%back : !regst.control) {
    %v = "test.op"() : () -> tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
}

plan.plan @two {
  %c = regst.chunk on <0, device cuda:0> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 on <0, device cuda:0> : !r
  plan.task "x" on <0, cuda:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
}

// -----

// Headers last, too; those of one interface lie in one place.

!d = !regst.data<tensor<?xf32>, max [16]>
!h = !regst.data<tensor<1xi64>>

// CHECK-LABEL: plan.plan @main exclusive
// CHECK-NEXT:    %[[LASTING:.+]] = regst.chunk on <0, host> size 200
// CHECK-NEXT:    %[[ONE:.+]] = regst.block in %[[LASTING]] at 0 size 8
// CHECK-NEXT:    %[[TWO:.+]] = regst.block in %[[LASTING]] at 64 size 8
// CHECK-NEXT:    %[[X:.+]] = regst.block in %[[LASTING]] at 128 size 64
// CHECK-NEXT:    %[[HEADER:.+]] = regst.block in %[[LASTING]] at 192 size 8
// CHECK-NEXT:    %[[CHUNK:.+]] = regst.chunk on <0, host> size 64
// CHECK:         regst.register "one/x" in %[[X]] at 0
// CHECK-NEXT:    regst.register "one/x/header" in %[[HEADER]] at 0 slots 1 header "one/x"
// CHECK-NEXT:    regst.register "one/a"
// CHECK-NEXT:    regst.register "one/a/header" in %[[ONE]] at 0 slots 1 header "one/a"
// CHECK-NEXT:    regst.register "two/x" in %[[X]] at 0
// CHECK-NEXT:    regst.register "two/x/header" in %[[HEADER]] at 0 slots 1 header "two/x"
// CHECK-NEXT:    regst.register "two/a"
// CHECK-NEXT:    regst.register "two/a/header" in %[[TWO]] at 0 slots 1 header "two/a"
plan.plan @one {
  %c = regst.chunk on <0, host> size 256
  %m = regst.block in %c at 0 size 256
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, host> : !d
  %0 = regst.register "x/header" in %m at 64 slots 1 header "x" on <0, host> : !h
  %a = regst.register "a" in %m at 128 slots 1 on <0, host> : !d
  %1 = regst.register "a/header" in %m at 192 slots 1 header "a" on <0, host> : !h
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !d) outs(%a : !d) {
  ^bb0(%2: tensor<?xf32>):
    %v = "test.op"(%2) : (tensor<?xf32>) -> tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
}

plan.plan @two {
  %c = regst.chunk on <0, host> size 256
  %m = regst.block in %c at 0 size 256
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, host> : !d
  %0 = regst.register "x/header" in %m at 64 slots 1 header "x" on <0, host> : !h
  %a = regst.register "a" in %m at 128 slots 1 on <0, host> : !d
  %1 = regst.register "a/header" in %m at 192 slots 1 header "a" on <0, host> : !h
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !d) {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !d) outs(%a : !d) {
  ^bb0(%2: tensor<?xf32>):
    %v = "test.op"(%2) : (tensor<?xf32>) -> tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
}

// -----

// Of plans of ranks those of each rank become one, in which jobs have their names on all
// ranks. One of them is on rank 1 alone, so its plan does not say its rank.

!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @main_0 rank 0 exclusive {{\[\["a", "b"\]\]}} attributes {jobs = {a = {}, b = {}}} {
// CHECK:         plan.task "w" on <0, cpu:0>
// CHECK:         plan.task "a/y" job "a" on <0, cpu:0>
// CHECK:         plan.task "b/y" job "b" on <0, cpu:0>
// CHECK-LABEL: plan.plan @main_1 rank 1 exclusive {{\[\["a", "b"\]\]}} attributes {jobs = {a = {}, b = {}, c = {}}} {
// CHECK:         plan.task "a/y" job "a" on <1, cpu:0>
// CHECK:         plan.task "b/y" job "b" on <1, cpu:0>
// CHECK:         plan.task "c/x" job "c" on <1, cpu:0>
// CHECK-NOT:     plan.plan
plan.plan @a_0 rank 0 {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.output "a", %v : tensor<4xf32>
    plan.yield
  }
}
plan.plan @a_1 rank 1 {
  %c = regst.chunk on <1, host> size 64
  %m = regst.block in %c at 0 size 64
  %w = regst.register "w" in %m at 0 slots 1 on <1, host> : !r
  plan.task "w" on <1, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.output "a", %v : tensor<4xf32>
    plan.yield
  }
}
plan.plan @b_0 rank 0 {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.output "b", %v : tensor<4xf32>
    plan.yield
  }
}
plan.plan @b_1 rank 1 {
  %c = regst.chunk on <1, host> size 64
  %m = regst.block in %c at 0 size 64
  %w = regst.register "w" in %m at 0 slots 1 on <1, host> : !r
  plan.task "w" on <1, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.output "b", %v : tensor<4xf32>
    plan.yield
  }
}
plan.plan @c {
  %d = regst.chunk on <1, host> size 64
  %m = regst.block in %d at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 on <1, host> : !r
  plan.task "x" on <1, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// The plans of the ranks of one job stay, unless that is to be a plan with one job.

!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @a_0 rank 0 {
// CHECK-LABEL: plan.plan @a_1 rank 1 {
// ALONE-LABEL: plan.plan @all_0 rank 0 attributes {jobs = {a = {}}} {
// ALONE-LABEL: plan.plan @all_1 rank 1 attributes {jobs = {a = {}}} {
plan.plan @a_0 rank 0 {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.output "a", %v : tensor<4xf32>
    plan.yield
  }
}
plan.plan @a_1 rank 1 {
  %c = regst.chunk on <1, host> size 64
  %m = regst.block in %c at 0 size 64
  %w = regst.register "w" in %m at 0 slots 1 on <1, host> : !r
  plan.task "w" on <1, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%v: tensor<4xf32>):
    job.output "a", %v : tensor<4xf32>
    plan.yield
  }
}
