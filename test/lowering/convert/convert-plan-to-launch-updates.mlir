// RUN: penstock-opt %s -p verify-plan,convert-plan-to-launch,verify-program | filecheck %s

// A result that lies on a variable, to which it is assigned, becomes a control. Its kernel
// is given the variable once, and the assignment has nothing to do.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// CHECK-LABEL: launch.program @updated
// CHECK:         launch.variable @w in @c0 at 0
// CHECK:         launch.control @"next/out" slots 1
// CHECK:         launch.kernel @[[SUB:.+]] target "cpu" (%in1: memref<4xf32>, %out0: memref<4xf32>)
// CHECK:         launch.actor @next on <0, cpu:0> stream 0 reads [@g] writes [@"next/out"] updates [@w as @"next/out"] {
// CHECK-NEXT:      launch.call @[[SUB]] [@g, @w]
// CHECK-NEXT:    }
// CHECK-NEXT:    launch.actor @assign on <0, cpu:0> stream 0 reads [@"next/out"] writes [] {
// CHECK-NEXT:    }
plan.plan @updated {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %g = regst.register "g" in %m at 64 slots 1 on <0, host> : !r
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !r
  %next = regst.register "next/out" alias %w : !r slots 1 on <0, host> : !r
  plan.task "g_" on <0, cpu:0> stream <compute, 0> ins() outs(%g : !r) { %v = job.input "g" : !t plan.yield %v : !t }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) { %v = job.variable "w" init <ones> : !t plan.yield %v : !t }
  plan.task "next" on <0, cpu:0> stream <compute, 0> ins(%g, %w : !r, !r) outs(%next : !r) { ^bb0(%v: !t, %u: !t): %x = op.sub %u, %v : !t, !t -> !t plan.yield %x : !t }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%next, %w : !r, !r) { ^bb0(%v: !t, %u: !t): job.assign %v to %u in_place : !t plan.yield }
}
