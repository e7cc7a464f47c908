// RUN: penstock-opt %s -p 'convert-plan-to-launch{simulate-ranks=true}' --split-input-file | filecheck %s

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// All ranks of a plan are in one program, under the least of them. Each has its own
// memory and its own streams, and what one rank copies from another lies there.

// CHECK-LABEL: launch.program @ranks rank 1 {
// CHECK-NEXT:    launch.chunk @c0 on <1, host> size 16
// CHECK-NEXT:    launch.chunk @c1 on <2, network> size 80
// CHECK-NEXT:    launch.register @"x/out" in @c0 at 0 slots 1 : memref<4xf32>
// CHECK-NEXT:    launch.register @"far/out" in @c1 at 0 slots 2 : memref<4xf32>
// CHECK-NEXT:    launch.actor @x on <1, cpu:0> stream 0 reads [] writes [@"x/out"] {
// CHECK:         launch.actor @far on <2, cpu:0> stream 1 reads [@"x/out"] writes [@"far/out"] {
// CHECK-NEXT:      launch.copy @"x/out" to @"far/out"
// CHECK:         launch.actor @y on <2, cpu:0> stream 1 reads [@"far/out"] writes [] {
// CHECK-NOT:   launch.program
plan.plan @ranks {
  %c = regst.chunk on <1, host> size 16
  %b = regst.block in %c at 0 size 16
  %d = regst.chunk on <2, network> size 80
  %e = regst.block in %d at 0 size 80
  %x = regst.register "x/out" in %b at 0 slots 1 on <1, host> : !r
  %far = regst.register "far/out" in %e at 0 slots 2 on <2, network> : !r
  plan.task "x" on <1, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "far" on <2, cpu:0> stream <compute, 0> ins(%x : !r) outs(%far : !r) {
  ^bb0(%v: !t):
    %w = job.copy %v to <2, cpu:0> : !t
    plan.yield %w : !t
  }
  plan.task "y" on <2, cpu:0> stream <compute, 0> ins(%far : !r) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}

// -----

// Memory of a rank without tasks is there, too: here a copy puts something into it.

// CHECK-LABEL: launch.program @pushed rank 0 {
// CHECK:         launch.chunk @c1 on <3, host> size 16
// CHECK:         launch.copy @"x/out" to @"far/out"
plan.plan @pushed {
  %c = regst.chunk on <0, host> size 16
  %b = regst.block in %c at 0 size 16
  %d = regst.chunk on <3, host> size 16
  %e = regst.block in %d at 0 size 16
  %x = regst.register "x/out" in %b at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %far = regst.register "far/out" in %e at 0 slots 1 on <3, host> : !regst.data<tensor<4xf32>>
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "push" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%far : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %w = job.copy %v to <3, cpu:0> : tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

// Ops that are the same on several ranks share a kernel.

// CHECK-LABEL: launch.program @kernels rank 0 {
// CHECK:         launch.kernel @constant_0
// CHECK-NOT:     launch.kernel
// CHECK:         launch.actor @a on <0, cpu:0> stream 0
// CHECK-NEXT:      launch.call @constant_0
// CHECK:         launch.actor @b on <1, cpu:0> stream 1
// CHECK-NEXT:      launch.call @constant_0
plan.plan @kernels {
  %c = regst.chunk on <0, host> size 16
  %b = regst.block in %c at 0 size 16
  %d = regst.chunk on <1, host> size 16
  %e = regst.block in %d at 0 size 16
  %x = regst.register "x/out" in %b at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %y = regst.register "y" in %e at 0 slots 1 on <1, host> : !regst.data<tensor<4xf32>>
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b" on <1, cpu:0> stream <compute, 0> ins() outs(%y : !regst.data<tensor<4xf32>>) {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// A plan on one rank becomes what it would become without the option.

// CHECK-LABEL: launch.program @alone rank 2 {
plan.plan @alone {
  %c = regst.chunk on <2, host> size 16
  %b = regst.block in %c at 0 size 16
  %x = regst.register "x/out" in %b at 0 slots 1 on <2, host> : !regst.data<tensor<4xf32>>
  plan.task "a" on <2, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
