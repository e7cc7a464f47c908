// RUN: penstock-opt %s -p 'plan-select-job{job=b},verify-plan' | filecheck %s
// RUN: penstock-opt %s -p 'plan-select-job{job=b},plan-select-job{job=b}' | filecheck %s
// RUN: penstock-opt %s -p 'plan-select-job{job=b},convert-plan-to-launch,verify-program' | filecheck %s --check-prefix=LAUNCH
// RUN: not penstock-opt %s -p 'plan-select-job{job=c}' 2>&1 | filecheck %s --check-prefix=UNKNOWN

// UNKNOWN: plan-select-job: no task belongs to job 'c'

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

// What "b" uses stays where it is: "w" because it reads a view of it, but not "v". A chunk
// that only "a" uses goes.

// CHECK-LABEL: plan.plan @b attributes {acme.origin = "b.onnx"} {
// CHECK-NEXT:    %[[LASTING:.+]] = regst.chunk on <0, host> size 128
// CHECK-NEXT:    %[[VARIABLES:.+]] = regst.block in %[[LASTING]] at 0 size 128
// CHECK-NEXT:    %[[CHUNK:.+]] = regst.chunk on <0, host> size 512
// CHECK-NEXT:    %[[BLOCK:.+]] = regst.block in %[[CHUNK]] at 64 size 64
// CHECK-NEXT:    %[[W:.+]] = regst.register "w" in %[[VARIABLES]] at 64
// CHECK-NEXT:    %[[X:.+]] = regst.register "b/x" in %[[BLOCK]] at 0
// CHECK-NEXT:    %[[Q:.+]] = regst.register "b/q" alias %[[W]]
// CHECK-NEXT:    %[[K:.+]] = regst.register "b/go" slots 1
// CHECK-NEXT:    plan.task "w" on
// CHECK:         plan.task "b/x" job "b" {{.*}} outs(%[[X]] : {{.*}} signals(%[[K]] :
// CHECK:         plan.task "b/q" job "b"
// CHECK:         plan.task "b/y" job "b" {{.*}} ins(%[[X]], %[[Q]] : {{.*}} waits(%[[K]] :
// CHECK-NOT:     plan.task

// LAUNCH-LABEL: launch.program @b rank 0
// LAUNCH:       launch.fetch "y" from @"b/x
plan.plan @main exclusive [["a", "b"]] attributes {jobs = {a = {}, b = {acme.origin = "b.onnx"}}} {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %d = regst.chunk on <0, host> size 512
  %n = regst.block in %d at 64 size 64
  %o = regst.block in %d at 128 size 64
  %e = regst.chunk on <0, device cuda:0> size 64
  %p = regst.block in %e at 0 size 64
  %v = regst.register "v" in %m at 0 slots 1 on <0, host> : !r
  %w = regst.register "w" in %m at 64 slots 1 on <0, host> : !r
  %ax = regst.register "a/x" in %o at 0 slots 1 on <0, host> : !r
  %ay = regst.register "a/y" in %p at 0 slots 1 on <0, device cuda:0> : !r
  %x = regst.register "b/x" in %n at 0 slots 1 on <0, host> : !r
  %q = regst.register "b/q" alias %w : !r slots 1 on <0, host> : !r
  %k = regst.register "b/go" slots 1 on <0, host> : !regst.control
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %1 = job.variable "v" init <zeros> : !t
    plan.yield %1 : !t
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %1 = job.variable "w" init <zeros> : !t
    plan.yield %1 : !t
  }
  plan.task "a/x" job "a" on <0, cpu:0> stream <compute, 0> ins(%v, %w : !r, !r) outs(%ax : !r) {
  ^bb0(%0: !t, %1: !t):
    %2 = op.add %0, %1 : !t, !t -> !t
    plan.yield %2 : !t
  }
  plan.task "a/y" job "a" on <0, cuda:0> stream <copy_h2d, 0> ins(%ax : !r) outs(%ay : !r) {
  ^bb0(%0: !t):
    %1 = job.copy %0 to <0, cuda:0> : !t
    plan.yield %1 : !t
  }
  plan.task "b/x" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) signals(%k : !regst.control) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "b/q" job "b" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%q : !r) {
  ^bb0(%0: !t):
    %1 = op.reshape %0 to [16] : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "b/y" job "b" on <0, cpu:0> stream <compute, 0> ins(%x, %q : !r, !r) waits(%k : !regst.control) {
  ^bb0(%0: !t, %1: !t):
    job.output "y", %0 : !t
    plan.yield
  }
}
