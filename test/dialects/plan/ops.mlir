// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Every operation and attribute prints as it was written.

!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

// A plan may have no task.

// CHECK-LABEL: plan.plan @empty attributes {acme.made = "by hand"} {
// CHECK-NEXT:  }
plan.plan @empty attributes {acme.made = "by hand"} {}

// Tasks that hand tensors on.

// CHECK-LABEL: plan.plan @double {
plan.plan @double {
  // CHECK-NEXT: %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    // CHECK-NEXT: %{{.+}} = job.input "x"
    %v = job.input "x" : tensor<4xf32>
    // CHECK-NEXT: plan.yield %{{.+}} : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK: plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) {
  // CHECK-NEXT: ^bb0(%{{.+}}: tensor<4xf32>):
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    // CHECK-NEXT: job.output "y"
    job.output "y", %v : tensor<4xf32>
    // CHECK-NEXT: plan.yield{{$}}
    plan.yield
  }
}

// Tasks of several jobs, some of which never run at the same time.

// CHECK-LABEL: plan.plan @jobs exclusive {{\[\["train", "eval"\]\]}} attributes {acme.origin = "a.onnx"} {
plan.plan @jobs exclusive [["train", "eval"]] attributes {acme.origin = "a.onnx"} {
  %w = regst.register "w" slots 1 on <0, host> : !r
  // CHECK: plan.task "w" on <0, cpu:0>
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  // CHECK: plan.task "train/y" job "train" on <0, cpu:0> stream <compute, 0> order 0 ins
  plan.task "train/y" job "train" on <0, cpu:0> stream <compute, 0> order 0 ins(%w : !r) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
  // CHECK: plan.task "eval/y" job "eval" on
  plan.task "eval/y" job "eval" on <0, cpu:0> stream <compute, 0> order 1 ins(%w : !r) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}

// Tasks on registers: what they read, write, wait for and signal.

// CHECK-LABEL: plan.plan @registers
plan.plan @registers attributes {acme.origin = "a.onnx"} {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  %k = regst.register "k" slots 1 initial 1 on <0, host> : !regst.control
  // CHECK: plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%x : !regst.data<tensor<4xf32>>) attributes {slots = 2 : i64} {
  plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%x : !r) attributes {slots = 2 : i64} {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // CHECK: plan.task "r" on <0, cpu:0> stream <compute, 0> chain 3 order 1 ins(%x : !regst.data<tensor<4xf32>>) outs(%h : !regst.data<tensor<4xf32>>) waits(%k : !regst.control) {
  plan.task "r" on <0, cpu:0> stream <compute, 0> chain 3 order 1
      ins(%x : !r) outs(%h : !r) waits(%k : !regst.control) {
  ^bb0(%v: !t):
    %r = op.relu %v : !t -> !t
    plan.yield %r : !t
  }
  // CHECK: plan.task "y" on <0, cpu:0> stream <copy_d2h, 1> ins(%h : !regst.data<tensor<4xf32>>) signals(%k : !regst.control) {
  plan.task "y" on <0, cpu:0> stream <copy_d2h, 1> ins(%h : !r) signals(%k : !regst.control) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}

// A task that can fail says so, whether its op can or not; a commit has a task of its own.

// CHECK-LABEL: plan.plan @failing {
plan.plan @failing {
  // CHECK: plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 can_fail ins() -> tensor<4xf32> {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 can_fail ins() -> tensor<4xf32> {
    %0 = job.input "x" : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  // CHECK:      plan.task "commit" on <0, cpu:0> stream <commit, 0> ins() {
  // CHECK-NEXT:   job.commit
  plan.task "commit" on <0, cpu:0> stream <commit, 0> ins() {
    job.commit
    plan.yield
  }
}
