// RUN: penstock-opt %s -p convert-plan-to-launch,verify-program --split-input-file | filecheck %s

// Each actor says its job, but not a variable, and the program which jobs exclude each
// other. What one job makes and the other one takes is neither fed nor fetched; all else
// is. Who goes on after the last use of what it takes releases it: all that read it, or a
// view of it, signal.

!r = !regst.data<tensor<16xf32>>
!v = !regst.data<tensor<4x4xf32>>

// CHECK-LABEL: launch.program @main rank 0 exclusive {{\[\["encode", "decode"\]\]}} {
// CHECK-DAG:     launch.variable @w in @c0 at 0 init <ones> : memref<16xf32>
// CHECK-DAG:     launch.register @"encode/h" in @c0 at 64 slots 1 interface "h" : memref<16xf32>
// CHECK-DAG:     launch.register @"decode/h" in @c0 at 64 slots 1 interface "h" : memref<16xf32>
// CHECK-DAG:     launch.control @"decode/b_1 -> decode/h_1/release" slots 1
// CHECK-DAG:     launch.control @"decode/a_1 -> decode/h_1/release" slots 1
plan.plan @main exclusive [["encode", "decode"]] {
  %c = regst.chunk on <0, host> size 320
  %m = regst.block in %c at 0 size 320
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  %h = regst.register "encode/h" in %m at 64 slots 1 interface "h" on <0, host> : !r
  %x = regst.register "encode/x" in %m at 128 slots 1 on <0, host> : !r
  %i = regst.register "decode/h" in %m at 64 slots 1 interface "h" on <0, host> : !r
  %v = regst.register "decode/v" alias %i : !r slots 1 on <0, host> : !v
  %a = regst.register "decode/a" in %m at 128 slots 1 on <0, host> : !v
  %b = regst.register "decode/b" in %m at 192 slots 1 on <0, host> : !r
  %d = regst.register "decode/d" in %m at 256 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  // CHECK:      launch.actor @"encode/x_1" job "encode" on <0, cpu:0> stream 0 reads [] writes [@"encode/x"] {
  // CHECK-NEXT:   launch.feed "x" to @"encode/x"
  plan.task "encode/x_1" job "encode" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.task "encode/add" job "encode" on <0, cpu:0> stream <compute, 0> ins(%x, %w : !r, !r) outs(%h : !r) {
  ^bb0(%0: tensor<16xf32>, %1: tensor<16xf32>):
    %2 = op.add %0, %1 : tensor<16xf32>, tensor<16xf32> -> tensor<16xf32>
    plan.yield %2 : tensor<16xf32>
  }
  // CHECK:      launch.actor @"encode/out" job "encode" {{.*}} reads [@"encode/h"] writes [] {
  // CHECK-NEXT: }
  plan.task "encode/out" job "encode" on <0, cpu:0> stream <compute, 0> ins(%h : !r) {
  ^bb0(%0: tensor<16xf32>):
    job.output "h", %0 : tensor<16xf32>
    plan.yield
  }
  // CHECK:      launch.actor @"decode/h_1" job "decode" {{.*}} reads [] writes [@"decode/h"] {
  // CHECK-NEXT: }
  plan.task "decode/h_1" job "decode" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !r) {
    %0 = job.input "h" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.task "decode/v_1" job "decode" on <0, cpu:0> stream <compute, 0> ins(%i : !r) outs(%v : !v) {
  ^bb0(%0: tensor<16xf32>):
    %1 = op.reshape %0 to [4, 4] : tensor<16xf32> -> tensor<4x4xf32>
    plan.yield %1 : tensor<4x4xf32>
  }
  // CHECK:      launch.actor @"decode/a_1" job "decode" {{.*}} reads [@"decode/v", @"decode/h"] writes [@"decode/a", @"decode/a_1 -> decode/h_1/release"] {
  plan.task "decode/a_1" job "decode" on <0, cpu:0> stream <compute, 0> ins(%v : !v) outs(%a : !v) {
  ^bb0(%0: tensor<4x4xf32>):
    %1 = op.relu %0 : tensor<4x4xf32> -> tensor<4x4xf32>
    plan.yield %1 : tensor<4x4xf32>
  }
  // CHECK:      launch.actor @"decode/b_1" job "decode"
  plan.task "decode/b_1" job "decode" on <0, cpu:0> stream <compute, 0> ins(%i : !r) outs(%b : !r) {
  ^bb0(%0: tensor<16xf32>):
    %1 = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %1 : tensor<16xf32>
  }
  // CHECK:      launch.actor @"decode/d_1" job "decode" {{.*}} reads [@"decode/b"] writes [@"decode/d"] {
  plan.task "decode/d_1" job "decode" on <0, cpu:0> stream <compute, 0> ins(%b : !r) outs(%d : !r) {
  ^bb0(%0: tensor<16xf32>):
    %1 = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %1 : tensor<16xf32>
  }
  // CHECK:      launch.fetch "d" from @"decode/d"
  plan.task "decode/out" job "decode" on <0, cpu:0> stream <compute, 0> ins(%d : !r) {
  ^bb0(%0: tensor<16xf32>):
    job.output "d", %0 : tensor<16xf32>
    plan.yield
  }
  plan.task "decode/out_1" job "decode" on <0, cpu:0> stream <compute, 0> ins(%a : !v) {
  ^bb0(%0: tensor<4x4xf32>):
    job.output "a", %0 : tensor<4x4xf32>
    plan.yield
  }
  // CHECK:      launch.actor @"decode/h_1/release" job "decode" on <0, cpu:0> stream 0
  // CHECK-SAME:     reads [@"decode/h", @"decode/v_1 -> decode/h_1/release", @"decode/a_1 -> decode/h_1/release", @"decode/b_1 -> decode/h_1/release"] writes [] {
  // CHECK-NEXT:   launch.release @"decode/h"
}

// -----

// What two jobs both take is fed to each, and what both make fetched from each. A job that
// does no more than use what it takes releases nothing.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: launch.program @alike rank 0 {
// CHECK-NOT:     launch.release
plan.plan @alike {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "a/x" in %m at 0 slots 1 interface "x" on <0, host> : !r
  %p = regst.register "a/y" in %m at 64 slots 1 interface "y" on <0, host> : !r
  %y = regst.register "b/x" in %m at 0 slots 1 interface "x" on <0, host> : !r
  %q = regst.register "b/y" in %m at 64 slots 1 interface "y" on <0, host> : !r
  %z = regst.register "pull/y" in %m at 64 slots 1 interface "y" on <0, host> : !r
  // CHECK: launch.feed "x" to @"a/x"
  plan.task "a/in" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.task "a/relu" job "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%p : !r) {
  ^bb0(%0: tensor<16xf32>):
    %1 = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %1 : tensor<16xf32>
  }
  // CHECK: launch.feed "x" to @"b/x"
  plan.task "b/in" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %0 = job.input "x" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.task "b/relu" job "b" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%q : !r) {
  ^bb0(%0: tensor<16xf32>):
    %1 = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %1 : tensor<16xf32>
  }
  plan.task "b/out" job "b" on <0, cpu:0> stream <compute, 0> ins(%q : !r) {
  ^bb0(%0: tensor<16xf32>):
    job.output "y", %0 : tensor<16xf32>
    plan.yield
  }
  plan.task "pull/in" job "pull" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %0 = job.input "y" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  // CHECK: launch.fetch "buffer" from @"pull/y"
  plan.task "pull/out" job "pull" on <0, cpu:0> stream <compute, 0> ins(%z : !r) {
  ^bb0(%0: tensor<16xf32>):
    job.foreign_output "buffer", %0 : tensor<16xf32>
    plan.yield
  }
}

// -----

// A plan of one job becomes a program that names none.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: launch.program @one rank 0 {
// CHECK:         launch.register @x in @c0 at 0 slots 1 : memref<16xf32>
// CHECK:         launch.actor @in on <0, cpu:0>
plan.plan @one {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, host> : !r
  plan.task "in" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
}

// -----

// Each rank has the jobs that have something to do there, and says which of these exclude
// each other.

!t = tensor<1xf32>
!r = !regst.data<tensor<1xf32>>

// CHECK-LABEL: launch.program @ranks_0 rank 0 exclusive {{\[\["a", "b"\]\]}} {
// CHECK:         launch.actor @a job "a"
// CHECK:         launch.actor @b job "b"
// CHECK-LABEL: launch.program @ranks_1 rank 1 {
// CHECK:         launch.actor @c job "c"
plan.plan @ranks exclusive [["a", "b", "c"]] {
  %c = regst.chunk on <0, host> size 4
  %d = regst.chunk on <1, host> size 4
  %m = regst.block in %c at 0 size 4
  %n = regst.block in %d at 0 size 4
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  %v = regst.register "v" in %n at 0 slots 1 on <1, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "v" job "c" on <1, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.variable "v" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "a" job "a" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: !t):
    job.output "a", %0 : !t
    plan.yield
  }
  plan.task "b" job "b" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: !t):
    job.output "b", %0 : !t
    plan.yield
  }
  plan.task "c" job "c" on <1, cpu:0> stream <compute, 0> ins(%v : !r) {
  ^bb0(%0: !t):
    job.output "c", %0 : !t
    plan.yield
  }
}

// -----

// Blocks of jobs that exclude each other lie over each other: of such a chunk peak and
// bound are those of the job that needs most, while the sum is that of all.

!r = !regst.data<tensor<16xf32>>

// 136 = 72 + 64 of "one", 128 = 64 + 64; 244 = 80 + 64 + 100
// CHECK-LABEL: launch.program @turns
// CHECK-NEXT:    launch.chunk @c0 on <0, host> size 192 {memory = {bound = 128 : i64, peak = 136 : i64, sum = 244 : i64, variables = 0 : i64}}
plan.plan @turns exclusive [["one", "two"]] {
  %c = regst.chunk on <0, host> size 192
  %a = regst.block in %c at 0 size 72 sum 80 bound 64
  %b = regst.block in %c at 128 size 64 sum 64 bound 64
  %d = regst.block in %c at 0 size 64 sum 100 bound 64
  %x = regst.register "one/x" in %a at 0 slots 1 on <0, host> : !r
  %y = regst.register "one/y" in %b at 0 slots 1 on <0, host> : !r
  %z = regst.register "two/z" in %d at 0 slots 1 on <0, host> : !r
  plan.task "one/x" job "one" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
  plan.task "one/y" job "one" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<16xf32>):
    %1 = op.exp %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %1 : tensor<16xf32>
  }
  plan.task "two/z" job "two" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %0 = job.input "z" : tensor<16xf32>
    plan.yield %0 : tensor<16xf32>
  }
}
