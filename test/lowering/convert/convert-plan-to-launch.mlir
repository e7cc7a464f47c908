// RUN: penstock-opt %s -p convert-plan-to-launch --split-input-file | filecheck %s

// Tasks become actors of the same name, their registers lie at the sum of two offsets,
// and equal ops call one kernel, which tells what its op costs: 2 x 16 x 4 bytes.

!r = !regst.data<tensor<16xf32>>

// CHECK-LABEL: launch.program @chain rank 0 attributes {acme.note = "kept"} {
// CHECK-NEXT:    launch.chunk @c0 on <0, host> size 320
// CHECK-NEXT:    launch.register @"x/out" in @c0 at 128 slots 2 : memref<16xf32>
// CHECK-NEXT:    launch.register @"a/out" in @c0 at 256 slots 1 : memref<16xf32>
// CHECK-NEXT:    launch.register @"b/out" in @c0 at 64 slots 1 : memref<16xf32>
// CHECK-NEXT:    launch.control @"y -> x" slots 1 initial 1
// CHECK-NEXT:    launch.kernel @relu_0 target "cpu" (%[[IN:.+]]: memref<16xf32>, %[[OUT:.+]]: memref<16xf32>)
// CHECK-SAME:      attributes {cost = {bytes = 128 : i64, flops = 16 : i64, op = "op.relu"}} {
// CHECK-NEXT:      linalg.generic {{.*}} ins(%[[IN]] : memref<16xf32>) outs(%[[OUT]] : memref<16xf32>)
// CHECK-NOT:     launch.kernel
plan.plan @chain attributes {acme.note = "kept"} {
  %c = regst.chunk on <0, host> size 320
  %m = regst.block in %c at 64 size 256
  %x = regst.register "x/out" in %m at 64 slots 2 on <0, host> : !r
  %a = regst.register "a/out" in %m at 192 slots 1 on <0, host> : !r
  %b = regst.register "b/out" in %m at 0 slots 1 on <0, host> : !r
  %k = regst.register "y -> x" slots 1 initial 1 on <0, host> : !regst.control
  // CHECK:      launch.actor @x on <0, cpu:0> stream 0 reads [@"y -> x"] writes [@"x/out"] {
  // CHECK-NEXT:   launch.feed "in" to @"x/out"
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) waits(%k : !regst.control) {
    %v = job.input "in" : tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // CHECK:      launch.actor @a on <0, cpu:0> stream 0 reads [@"x/out"] writes [@"a/out"] {
  // CHECK-NEXT:   launch.call @relu_0 [@"x/out", @"a/out"]
  plan.task "a" on <0, cpu:0> stream <compute, 0> order 3 ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: tensor<16xf32>):
    %v = op.relu %0 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  // CHECK:      launch.actor @b on <0, cpu:0> stream 1 reads [@"a/out"] writes [@"b/out"] {
  // CHECK-NEXT:   launch.call @relu_0 [@"a/out", @"b/out"]
  plan.task "b" on <0, cpu:0> stream <compute, 1> ins(%a : !r) outs(%b : !r) {
  ^bb0(%1: tensor<16xf32>):
    %w = op.relu %1 : tensor<16xf32> -> tensor<16xf32>
    plan.yield %w : tensor<16xf32>
  }
  // CHECK:      launch.actor @y on <0, cpu:0> stream 0 reads [@"b/out"] writes [@"y -> x"] {
  // CHECK-NEXT:   launch.fetch "out" from @"b/out"
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%b : !r) signals(%k : !regst.control) {
  ^bb0(%0: tensor<16xf32>):
    job.output "out", %0 : tensor<16xf32>
    plan.yield
  }
}

// -----

// Variables and constants with different elements are data, not actors, and may be
// used by any step. A port is kept where it is not the name.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: launch.program @variables rank 0 {
// CHECK:         launch.variable @w in @c0 at 0 init <he_normal, seed = 3> : memref<2xf32>
// CHECK-NEXT:    launch.variable @b_1 port "b" in @c0 at 64 init <zeros> : memref<2xf32>
// CHECK-NEXT:    launch.variable @k in @c0 at 128 value dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> : memref<2xf32>
// CHECK-NEXT:    launch.register @s in @c0 at 192
// CHECK-NEXT:    launch.kernel @add_0
plan.plan @variables {
  %c = regst.chunk on <0, host> size 200
  %m = regst.block in %c at 0 size 200
  %w = regst.register "w/out" in %m at 0 slots 1 on <0, host> : !r
  %b = regst.register "b/out" in %m at 64 slots 1 on <0, host> : !r
  %k = regst.register "k/out" in %m at 128 slots 1 on <0, host> : !r
  %s = regst.register "s" in %m at 192 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <he_normal, seed = 3> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  plan.task "b_1" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !r) {
    %v = job.variable "b" init <zeros> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  plan.task "k" on <0, cpu:0> stream <compute, 0> ins() outs(%k : !r) {
    %v = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // The call names operands as often and in the order that the op does.
  // CHECK:      launch.actor @sum on <0, cpu:0> stream 0 reads [] writes [@s] {
  // CHECK-NEXT:   launch.call @add_0 [@k, @w, @s]
  plan.task "sum" on <0, cpu:0> stream <compute, 0> ins(%w, %b, %k : !r, !r, !r) outs(%s : !r) {
  ^bb0(%0: tensor<2xf32>, %1: tensor<2xf32>, %2: tensor<2xf32>):
    %v = op.add %2, %0 : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK:      launch.actor @y on <0, cpu:0> stream 0 reads [] writes [] {
  // CHECK-NEXT:   launch.fetch "y" from @b_1
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%b : !r) {
  ^bb0(%0: tensor<2xf32>):
    job.output "y", %0 : tensor<2xf32>
    plan.yield
  }
}

// -----

// Kernels are shared by ops of the same kind, types and properties on one kind of
// device, whatever their values are named. A splat constant is computed.

!r = !regst.data<tensor<2xf32>>
!s = !regst.data<tensor<3xf32>>

// CHECK-LABEL: launch.program @kernels rank 0 {
// CHECK:         launch.kernel @constant_0 target "cpu" (%{{.+}}: memref<2xf32>)
// CHECK:         launch.kernel @constant_1 target "cpu" (%{{.+}}: memref<2xf32>)
// CHECK:         launch.kernel @constant_2 target "cpu" (%{{.+}}: memref<3xf32>)
// CHECK:         launch.kernel @add_0 target "cpu"
// CHECK:         launch.kernel @fused_0 target "cpu"
// CHECK:         launch.kernel @fused_1 target "cpu"
// CHECK:         launch.kernel @constant_3 target "cuda" (%{{.+}}: memref<2xf32>)
// CHECK-NOT:     launch.kernel
plan.plan @kernels {
  %c = regst.chunk on <0, host> size 576
  %m = regst.block in %c at 0 size 576
  %d = regst.chunk on <0, device cuda:0> size 8
  %n = regst.block in %d at 0 size 8
  %one = regst.register "one" in %m at 0 slots 1 on <0, host> : !r
  %two = regst.register "two" in %m at 64 slots 1 on <0, host> : !r
  %three = regst.register "three" in %m at 128 slots 1 on <0, host> : !s
  %r0 = regst.register "r0" in %m at 192 slots 1 on <0, host> : !r
  %r1 = regst.register "r1" in %m at 256 slots 1 on <0, host> : !r
  %f0 = regst.register "f0" in %m at 320 slots 1 on <0, host> : !r
  %f1 = regst.register "f1" in %m at 384 slots 1 on <0, host> : !r
  %f2 = regst.register "f2" in %m at 448 slots 1 on <0, host> : !r
  %g = regst.register "g" in %n at 0 slots 1 on <0, device cuda:0> : !r
  // CHECK: launch.call @constant_0 [@one_1]
  plan.task "one" on <0, cpu:0> stream <compute, 0> ins() outs(%one : !r) {
    %v = op.constant dense<1.0> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK: launch.call @constant_1 [@two_1]
  plan.task "two" on <0, cpu:0> stream <compute, 0> ins() outs(%two : !r) {
    %v = op.constant dense<2.0> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK: launch.call @constant_2 [@three_1]
  plan.task "three" on <0, cpu:0> stream <compute, 0> ins() outs(%three : !s) {
    %v = op.constant dense<1.0> : tensor<3xf32>
    plan.yield %v : tensor<3xf32>
  }
  // What an op says beside its properties is of no account.
  // CHECK: launch.call @add_0 [@one_1, @two_1, @r0]
  plan.task "a0" on <0, cpu:0> stream <compute, 0> ins(%one, %two : !r, !r) outs(%r0 : !r) {
  ^bb0(%0: tensor<2xf32>, %1: tensor<2xf32>):
    %v = op.add %0, %1 {acme.note = "first"} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK: launch.call @add_0 [@two_1, @two_1, @r1]
  plan.task "a1" on <0, cpu:0> stream <compute, 0> ins(%two : !r) outs(%r1 : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.add %0, %0 : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK: launch.call @fused_0 [@one_1, @f0]
  plan.task "t0" on <0, cpu:0> stream <compute, 0> ins(%one : !r) outs(%f0 : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.fused %0 : tensor<2xf32> -> tensor<2xf32> {
    ^bb0(%p: tensor<2xf32>):
      %q = op.relu %p : tensor<2xf32> -> tensor<2xf32>
      %s = op.add %p, %q : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      op.yield %s : tensor<2xf32>
    }
    plan.yield %v : tensor<2xf32>
  }
  // CHECK: launch.call @fused_0 [@two_1, @f1]
  plan.task "t1" on <0, cpu:0> stream <compute, 0> ins(%two : !r) outs(%f1 : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.fused %0 : tensor<2xf32> -> tensor<2xf32> {
    ^bb0(%first: tensor<2xf32>):
      %second = op.relu %first : tensor<2xf32> -> tensor<2xf32>
      %third = op.add %first, %second : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      op.yield %third : tensor<2xf32>
    }
    plan.yield %v : tensor<2xf32>
  }
  // The same ops between other values are another kernel.
  // CHECK: launch.call @fused_1 [@two_1, @f2]
  plan.task "t2" on <0, cpu:0> stream <compute, 0> ins(%two : !r) outs(%f2 : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.fused %0 : tensor<2xf32> -> tensor<2xf32> {
    ^bb0(%p: tensor<2xf32>):
      %q = op.relu %p : tensor<2xf32> -> tensor<2xf32>
      %s = op.add %q, %q : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
      op.yield %s : tensor<2xf32>
    }
    plan.yield %v : tensor<2xf32>
  }
  // CHECK: launch.call @constant_3 [@g_1]
  plan.task "g" on <0, cuda:0> stream <compute, 0> ins() outs(%g : !r) {
    %v = op.constant dense<1.0> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
}

// -----

// Copies go between memories; streams count over all devices.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: launch.program @copies rank 0 {
// CHECK-NEXT:    launch.chunk @c0 on <0, pinned cuda:0> size 8
// CHECK-NEXT:    launch.chunk @c1 on <0, device cuda:0> size 520
// CHECK-NEXT:    launch.register @"x/out" in @c0 at 0 slots 1 : memref<2xf32>
// CHECK-NEXT:    launch.register @"d/out" in @c1 at 0 slots 2 : memref<2xf32>
plan.plan @copies {
  %c = regst.chunk on <0, pinned cuda:0> size 8
  %m = regst.block in %c at 0 size 8
  %d = regst.chunk on <0, device cuda:0> size 520
  %n = regst.block in %d at 0 size 520
  %x = regst.register "x/out" in %m at 0 slots 1 on <0, pinned cuda:0> : !r
  %y = regst.register "d/out" in %n at 0 slots 2 on <0, device cuda:0> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK:      launch.actor @d on <0, cuda:0> stream 1 reads [@"x/out"] writes [@"d/out"] {
  // CHECK-NEXT:   launch.copy @"x/out" to @"d/out"
  plan.task "d" on <0, cuda:0> stream <copy_h2d, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = job.copy %0 to <0, cuda:0> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
}

// -----

// An alias lies where what it stands for does. Who reads it holds what is written there
// first, so that nobody writes there meanwhile. A kernel that works in place has one
// argument for what it reads and what it writes; a view says where the first lies.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: launch.program @aliases rank 0 {
// CHECK:         launch.register @"x/out" in @c0 at 64 slots 1
// CHECK-NEXT:    launch.register @"y/out" in @c0 at 64 slots 1
// CHECK-NEXT:    launch.register @"z/out" in @c0 at 64 slots 1
// CHECK-NEXT:    launch.kernel @relu_0 target "cpu" (%[[A:.+]]: memref<2xf32>)
// CHECK:           linalg.generic
// CHECK-SAME:        ins(%[[A]] : memref<2xf32>) outs(%[[A]] : memref<2xf32>)
plan.plan @aliases {
  %c = regst.chunk on <0, host> size 72
  %m = regst.block in %c at 0 size 72
  %x = regst.register "x/out" in %m at 64 slots 1 on <0, host> : !r
  %y = regst.register "y/out" alias %x : !r slots 1 on <0, host> : !r
  %z = regst.register "z/out" alias %y : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK:      launch.actor @y on <0, cpu:0> stream 0 reads [@"x/out"] writes [@"y/out"] views [@"x/out" as @"y/out"] {
  // CHECK-NEXT:   launch.call @relu_0 [@"y/out"]
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.relu %0 : tensor<2xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK: launch.actor @z on <0, cpu:0> stream 0 reads [@"y/out", @"x/out"] writes [@"z/out"] views [@"y/out" as @"z/out"] {
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%z : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.relu %0 : tensor<2xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK:      launch.actor @out on <0, cpu:0> stream 0 reads [@"z/out", @"x/out"] writes [] {
  // CHECK-NEXT:   launch.fetch "out" from @"z/out"
  plan.task "out" on <0, cpu:0> stream <compute, 0> ins(%z : !r) {
  ^bb0(%0: tensor<2xf32>):
    job.output "out", %0 : tensor<2xf32>
    plan.yield
  }
}

// -----

// Sums may lie over what they start from, or elsewhere; a bias is added after them.

!x = !regst.data<tensor<1x3x2x2xf32>>
!w = !regst.data<tensor<2x3x1x1xf32>>
!b = !regst.data<tensor<2xf32>>
!r = !regst.data<tensor<1x2x2x2xf32>>

// CHECK-LABEL: launch.program @sums rank 0 {
// CHECK:         launch.kernel @fused_conv2d_0 target "cpu" (%[[X:.+]]: memref<1x3x2x2xf32>, %[[W:.+]]: memref<2x3x1x1xf32>, %[[B:.+]]: memref<2xf32>, %[[R:.+]]: memref<1x2x2x2xf32>, %[[Y:.+]]: memref<1x2x2x2xf32>)
// CHECK-NEXT:      kernel.contract {{.*}} ins(%[[X]], %[[W]] : {{.*}}) outs(%[[Y]] : memref<1x2x2x2xf32>) start(%[[R]] : memref<1x2x2x2xf32>) finish(%[[B]] : memref<2xf32>) {
// CHECK-NOT:       linalg
// CHECK:         launch.kernel @fused_conv2d_1 target "cpu" (%[[X:.+]]: memref<1x3x2x2xf32>, %[[W:.+]]: memref<2x3x1x1xf32>, %[[B:.+]]: memref<2xf32>, %[[Y:.+]]: memref<1x2x2x2xf32>)
// CHECK-NEXT:      kernel.contract {{.*}} ins(%[[X]], %[[W]] : {{.*}}) outs(%[[Y]] : memref<1x2x2x2xf32>) start(%[[Y]] : memref<1x2x2x2xf32>) finish(%[[B]] : memref<2xf32>) {
// CHECK-NOT:       linalg
plan.plan @sums {
  %c = regst.chunk on <0, host> size 512
  %m = regst.block in %c at 0 size 512
  %x = regst.register "x/out" in %m at 0 slots 1 on <0, host> : !x
  %w = regst.register "w/out" in %m at 64 slots 1 on <0, host> : !w
  %b = regst.register "b/out" in %m at 128 slots 1 on <0, host> : !b
  %r = regst.register "r/out" in %m at 192 slots 1 on <0, host> : !r
  %y = regst.register "y/out" in %m at 256 slots 1 on <0, host> : !r
  %z = regst.register "z/out" alias %y : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !x) {
    %v = job.input "x" : tensor<1x3x2x2xf32>
    plan.yield %v : tensor<1x3x2x2xf32>
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !w) {
    %v = job.input "w" : tensor<2x3x1x1xf32>
    plan.yield %v : tensor<2x3x1x1xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !b) {
    %v = job.input "b" : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  plan.task "r" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !r) {
    %v = job.input "r" : tensor<1x2x2x2xf32>
    plan.yield %v : tensor<1x2x2x2xf32>
  }
  // CHECK:      launch.actor @y on
  // CHECK-NEXT:   launch.call @fused_conv2d_0 [@"x/out", @"w/out", @"b/out", @"r/out", @"y/out"]
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x, %w, %b, %r : !x, !w, !b, !r) outs(%y : !r) {
  ^bb0(%0: tensor<1x3x2x2xf32>, %1: tensor<2x3x1x1xf32>, %2: tensor<2xf32>, %3: tensor<1x2x2x2xf32>):
    %v = op.fused %0, %1, %2, %3 : tensor<1x3x2x2xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>, tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32> starts {
    ^bb0(%4: tensor<1x3x2x2xf32>, %5: tensor<2x3x1x1xf32>, %6: tensor<2xf32>, %7: tensor<1x2x2x2xf32>):
      %s = op.conv2d %4, %5, %6 : tensor<1x3x2x2xf32>, tensor<2x3x1x1xf32>, tensor<2xf32> -> tensor<1x2x2x2xf32>
      %a = op.add %s, %7 : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
      op.yield %a : tensor<1x2x2x2xf32>
    }
    plan.yield %v : tensor<1x2x2x2xf32>
  }
  // CHECK:      launch.actor @z on
  // CHECK-NEXT:   launch.call @fused_conv2d_1 [@"x/out", @"w/out", @"b/out", @"z/out"]
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%x, %w, %b, %y : !x, !w, !b, !r) outs(%z : !r) {
  ^bb0(%0: tensor<1x3x2x2xf32>, %1: tensor<2x3x1x1xf32>, %2: tensor<2xf32>, %3: tensor<1x2x2x2xf32>):
    %v = op.fused %0, %1, %2, %3 : tensor<1x3x2x2xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>, tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32> starts {
    ^bb0(%4: tensor<1x3x2x2xf32>, %5: tensor<2x3x1x1xf32>, %6: tensor<2xf32>, %7: tensor<1x2x2x2xf32>):
      %s = op.conv2d %4, %5, %6 : tensor<1x3x2x2xf32>, tensor<2x3x1x1xf32>, tensor<2xf32> -> tensor<1x2x2x2xf32>
      %a = op.add %s, %7 : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32> -> tensor<1x2x2x2xf32>
      op.yield %a : tensor<1x2x2x2xf32>
    }
    plan.yield %v : tensor<1x2x2x2xf32>
  }
  plan.task "out" on <0, cpu:0> stream <compute, 0> ins(%z : !r) {
  ^bb0(%0: tensor<1x2x2x2xf32>):
    job.output "out", %0 : tensor<1x2x2x2xf32>
    plan.yield
  }
}

// -----

// What already lies where its op would copy it to is listed as unchanged; the rest of the
// operands is copied, and so has to lie elsewhere.

// CHECK-LABEL: launch.program @joined rank 0 {
// CHECK:         launch.register @"a/out" in @c0 at 8 slots 1
// CHECK-NEXT:    launch.register @"b/out" in @c0 at 64 slots 1
plan.plan @joined {
  %c = regst.chunk on <0, host> size 72
  %m = regst.block in %c at 0 size 72
  %y = regst.register "y/out" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %a = regst.register "a/out" alias %y : !regst.data<tensor<4xf32>> at 8 slots 1 on <0, host> : !regst.data<tensor<2xf32>>
  %b = regst.register "b/out" in %m at 64 slots 1 on <0, host> : !regst.data<tensor<2xf32>>
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !regst.data<tensor<2xf32>>) {
    %v = job.input "a" : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !regst.data<tensor<2xf32>>) {
    %v = job.input "b" : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // CHECK:      launch.actor @y on
  // CHECK-NEXT:   launch.call @concat_0 [@"b/out", @"a/out", @"y/out"] {unchanged = [@"a/out"]}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a, %b : !regst.data<tensor<2xf32>>, !regst.data<tensor<2xf32>>) outs(%y : !regst.data<tensor<4xf32>>) {
  ^bb0(%0: tensor<2xf32>, %1: tensor<2xf32>):
    %v = op.concat %1, %0 axis 0 : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK:      launch.actor @out on
  // CHECK-NOT: unchanged
  plan.task "out" on <0, cpu:0> stream <compute, 0> ins(%y : !regst.data<tensor<4xf32>>) {
  ^bb0(%0: tensor<4xf32>):
    job.output "out", %0 : tensor<4xf32>
    plan.yield
  }
}

// -----

// Names that are taken give way: first registers, then kernels.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: launch.program @names rank 0 {
// CHECK-NEXT:    launch.chunk @c0_1 on
// CHECK-NEXT:    launch.register @relu_0_1 in @c0_1 at 0
// CHECK-NEXT:    launch.register @out in @c0_1 at 64
// CHECK-NEXT:    launch.kernel @constant_0
// CHECK:         launch.kernel @relu_1
// CHECK:         launch.actor @c0 on
// CHECK:         launch.actor @relu_0 on
// CHECK-NEXT:      launch.call @relu_1 [@out, @relu_0_1]
plan.plan @names {
  %c = regst.chunk on <0, host> size 72
  %m = regst.block in %c at 0 size 72
  %y = regst.register "relu_0" in %m at 0 slots 1 on <0, host> : !r
  %x = regst.register "out" in %m at 64 slots 1 on <0, host> : !r
  plan.task "c0" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = op.constant dense<1.0> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  plan.task "relu_0" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.relu %0 : tensor<2xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
}

// -----

// Each rank has a program with its tasks and its memory.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: launch.program @ranks_0 rank 0 {
// CHECK-NEXT:    launch.chunk @c0 on <0, host> size 8
// CHECK-NEXT:    launch.register @"a/out" in @c0 at 0
// CHECK-NOT:     launch.register
// CHECK:         launch.actor @a on <0, cpu:0> stream 0
// CHECK-NOT:     launch.actor
// CHECK-LABEL: launch.program @ranks_2 rank 2 {
// CHECK-NEXT:    launch.chunk @c0 on <2, host> size 8
// CHECK-NEXT:    launch.register @"b/out" in @c0 at 0
// CHECK:         launch.kernel @constant_0
// CHECK:         launch.actor @b on <2, cpu:0> stream 0
plan.plan @ranks {
  %c = regst.chunk on <2, host> size 8
  %m = regst.block in %c at 0 size 8
  %d = regst.chunk on <0, host> size 8
  %n = regst.block in %d at 0 size 8
  %b = regst.register "b/out" in %m at 0 slots 1 on <2, host> : !r
  %a = regst.register "a/out" in %n at 0 slots 1 on <0, host> : !r
  plan.task "b" on <2, cpu:0> stream <compute, 0> ins() outs(%b : !r) {
    %v = op.constant dense<1.0> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = op.constant dense<1.0> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
}

// -----

// A plan without tasks runs on rank 0, and registers that no task uses are dropped.

// CHECK-LABEL: launch.program @nothing rank 0 {
// CHECK-NEXT:    launch.chunk @c0
// CHECK-NEXT:  }
plan.plan @nothing {
  %c = regst.chunk on <0, host> size 8
  %m = regst.block in %c at 0 size 8
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<2xf32>>
}

// -----

// A chunk reports the memory of blocks that carry sums: of variables on their own, and
// the size, lower bound and sum of all others, as the registers of the plan need them.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: launch.program @reported
// 64 = 8 + 56, 8 of "x", 96 = 8 + 88
// CHECK-NEXT:    launch.chunk @c0 on <0, host> size 184 {memory = {bound = 8 : i64, peak = 64 : i64, sum = 96 : i64, variables = 72 : i64}}
plan.plan @reported {
  %c = regst.chunk on <0, host> size 184
  %v = regst.block in %c at 0 size 72 sum 72 bound 16
  %k = regst.block in %c at 128 size 8
  %s = regst.block in %c at 128 size 56 sum 88 bound 40
  %w = regst.register "w/out" in %v at 64 slots 1 on <0, host> : !r
  %x = regst.register "x/out" in %k at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
}

// -----

// A block in which other registers lie too is none of variables.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: launch.program @mixed
// CHECK-NEXT:    launch.chunk @c0 on <0, host> size 72 {memory = {bound = 72 : i64, peak = 72 : i64, sum = 72 : i64, variables = 0 : i64}}
plan.plan @mixed {
  %c = regst.chunk on <0, host> size 72
  %m = regst.block in %c at 0 size 72 sum 72
  %w = regst.register "w/out" in %m at 64 slots 1 on <0, host> : !r
  %x = regst.register "x/out" in %m at 0 slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %0 = job.input "x" : tensor<2xf32>
    plan.yield %0 : tensor<2xf32>
  }
}

// -----

// A view starts where the pair of its op says.

!r = !regst.data<tensor<32xf32>>
!h = !regst.data<tensor<16xf32>>

// CHECK-LABEL: launch.program @half rank 0 {
plan.plan @half {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x/out" in %m at 0 slots 1 on <0, host> : !r
  %y = regst.register "y/out" alias %x : !r at 64 slots 1 on <0, host> : !h
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
  // CHECK:      launch.actor @y on <0, cpu:0> stream 0 reads [@"x/out"] writes [@"y/out"] views [@"x/out" at 64 as @"y/out"] {
  // CHECK-NEXT: }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !h) {
  ^bb0(%0: tensor<32xf32>):
    %v = op.slice %0 from [16] to [32] by [1] : tensor<32xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "out" on <0, cpu:0> stream <compute, 0> ins(%y : !h) {
  ^bb0(%0: tensor<16xf32>):
    job.output "out", %0 : tensor<16xf32>
    plan.yield
  }
}
