// RUN: penstock-opt %s -p plan-split-ranks --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-split-ranks,plan-split-ranks --split-input-file | filecheck %s

!t = tensor<4xf32>

// Tags count the copies between ranks, in the order of the list. The tasks of a rank,
// and control registers, are in its plan, which has the attributes of the plan.

// CHECK-LABEL: plan.plan @there_0 rank 0 attributes {live_bytes = 1 : i64}
// CHECK-NEXT:    regst.register "x -> z"
// CHECK:         plan.task "x" on <0, cpu:0> {{.*}} signals
// CHECK:         plan.task "a/send" on <0, cpu:0> stream <network, 0>
// CHECK:           job.send %{{.*}} to <2, cpu:1> tag 0
// CHECK:         plan.task "b" on <0, cpu:0> stream <network, 0> ins() -> tensor<4xf32> attributes {slots = 3 : i64}
// CHECK:           job.receive from <2, cpu:1> tag 1
// CHECK:         plan.task "z" on <0, cpu:0> {{.*}} waits
// CHECK-LABEL: plan.plan @there_2 rank 2 attributes {live_bytes = 1 : i64}
// CHECK:         plan.task "a" on <2, cpu:1> stream <network, 0> ins() -> tensor<4xf32>
// CHECK:           job.receive from <0, cpu:0> tag 0
// CHECK:         plan.task "b/send_1" on <2, cpu:1> stream <network, 0>
// CHECK:           job.send %{{.*}} to <0, cpu:0> tag 1
// CHECK:         plan.task "b/send" on <2, cpu:1> stream <compute, 0>
plan.plan @there attributes {live_bytes = 1 : i64} {
  %k = regst.register "x -> z" slots 1 on <0, host> : !regst.control
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !regst.control) -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %a = plan.task "a" on <2, cpu:1> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%v: !t):
    %w = job.copy %v to <2, cpu:1> : !t
    plan.yield %w : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !t) -> !t attributes {slots = 3 : i64} {
  ^bb0(%v: !t):
    %w = job.copy %v to <0, cpu:0> : !t
    plan.yield %w : !t
  }
  plan.task "b/send" on <2, cpu:1> stream <compute, 0> ins(%a : !t) {
  ^bb0(%v: !t):
    job.output "a", %v : !t
    plan.yield
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%b : !t) waits(%k : !regst.control) {
  ^bb0(%v: !t):
    job.output "z", %v : !t
    plan.yield
  }
}

// -----

// A plan on one rank stays, and so does a copy within one.

// CHECK-LABEL: plan.plan @alone {
// CHECK:         job.copy
plan.plan @alone {
  %x = plan.task "x" on <1, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %a = plan.task "a" on <1, cuda:0> stream <copy_h2d, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %w = job.copy %v to <1, cuda:0> : tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

// Registers that hold bytes are past this pass.

// CHECK-LABEL: plan.plan @registers {
// CHECK:         job.copy
plan.plan @registers {
  %x = regst.register "x/out" slots 1 on <0, network> : !regst.data<tensor<4xf32>>
  %far = regst.register "far/out" slots 2 on <1, network> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%far : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %w = job.copy %v to <1, cpu:0> : tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

// Four pieces of "r" are there before the sum of them comes back, so it asks for four
// slots. What the plan of a rank alone takes more slots for asks for none.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @sums_0 rank 0
// CHECK:         plan.task "p" {{.*}} -> tensor<4xf32> {
// CHECK:         plan.task "r" {{.*}} -> tensor<4xf32> attributes {slots = 4 : i64}
// CHECK:         plan.task "back" {{.*}} -> tensor<4xf32> {
// CHECK-LABEL: plan.plan @sums_1 rank 1
// CHECK-NOT:     slots
plan.plan @sums {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %p = plan.task "p" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.repeat %v times 4 : !t -> !t
    plan.yield %w : !t
  }
  %r = plan.task "r" on <0, cpu:0> stream <compute, 0> ins(%p : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.relu %v : !t -> !t
    plan.yield %w : !t
  }
  %far = plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%r : !t) -> !t {
  ^bb0(%v: !t):
    %w = job.copy %v to <1, cpu:0> : !t
    plan.yield %w : !t
  }
  %sum = plan.task "sum" on <1, cpu:0> stream <compute, 0> ins(%far : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.acc %v every 4 : !t -> !t
    plan.yield %w : !t
  }
  %back = plan.task "back" on <0, cpu:0> stream <compute, 0> ins(%sum : !t) -> !t {
  ^bb0(%v: !t):
    %w = job.copy %v to <0, cpu:0> : !t
    plan.yield %w : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%back : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.repeat %v times 4 : !t -> !t
    plan.yield %w : !t
  }
  %s = plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%b, %r : !t, !t) -> !t {
  ^bb0(%v: !t, %u: !t):
    %w = op.add %v, %u : !t, !t -> !t
    plan.yield %w : !t
  }
  %z = plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%s : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.acc %v every 4 : !t -> !t
    plan.yield %w : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%z : !t) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}

// -----

// A variable is read by a copy to another rank before it is written: that waits for the
// sender, which is on its rank. What the copy waits for on its own rank the receiver does.

// CHECK-LABEL: plan.plan @update_0 rank 0
// CHECK:         %[[READ:.+]] = regst.register "far -> assign"
// CHECK-NOT:     regst.register
// CHECK:         plan.task "far/send" on <0, cpu:0> {{.*}} signals(%[[READ]] : !regst.control)
// CHECK:         plan.task "assign" on <0, cpu:0> {{.*}} waits(%[[READ]] : !regst.control)
// CHECK-LABEL: plan.plan @update_1 rank 1
// CHECK:         %[[READY:.+]] = regst.register "y -> far"
// CHECK-NOT:     regst.register
// CHECK:         plan.task "y" on <1, cpu:0> {{.*}} signals(%[[READY]] : !regst.control)
// CHECK:         plan.task "far" on <1, cpu:0> {{.*}} waits(%[[READY]] : !regst.control)
plan.plan @update {
  %k = regst.register "far -> assign" slots 1 on <0, host> : !regst.control
  %l = regst.register "y -> far" slots 1 on <1, host> : !regst.control
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.variable "w" init <ones> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <1, cpu:0> stream <compute, 0> ins() signals(%l : !regst.control) -> tensor<4xf32> {
    %v = job.input "y" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %far = plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%w : tensor<4xf32>) waits(%l : !regst.control) signals(%k : !regst.control) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = job.copy %v to <1, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%x, %w : tensor<4xf32>, tensor<4xf32>) waits(%k : !regst.control) {
  ^bb0(%v: tensor<4xf32>, %u: tensor<4xf32>):
    job.assign %v to %u : tensor<4xf32>
    plan.yield
  }
  plan.task "z" on <1, cpu:0> stream <compute, 0> ins(%far : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.output "z", %v : tensor<4xf32>
    plan.yield
  }
}

// -----

// Jobs of one module have tags of their own, collectives among them.

// CHECK-LABEL: plan.plan @one_0 rank 0
// CHECK:         job.collective "all_reduce" by "ring" over [0, 1] tag 0
// CHECK:         job.send %{{.*}} to <1, cpu:0> tag 1
// CHECK-LABEL: plan.plan @one_1 rank 1
// CHECK:         job.receive from <0, cpu:0> tag 1
// CHECK:         job.collective "all_reduce" by "ring" over [0, 1] tag 0
// CHECK-LABEL: plan.plan @two_0 rank 0
// CHECK:         job.collective "all_reduce" by "ring" over [0, 1] tag 2
// CHECK:         job.send %{{.*}} to <1, cpu:0> tag 3
// CHECK-LABEL: plan.plan @two_1 rank 1
// CHECK:         job.receive from <0, cpu:0> tag 3
// CHECK:         job.collective "all_reduce" by "ring" over [0, 1] tag 2
plan.plan @one {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %0 = plan.task "sum" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %s = job.collective "all_reduce" by "ring" over [0, 1] tag 0 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %s : tensor<4xf32>
  }
  %far = plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%0 : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = job.copy %v to <1, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %1 = plan.task "sum@1" on <1, cpu:0> stream <network, 0> ins(%far : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %s = job.collective "all_reduce" by "ring" over [0, 1] tag 0 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %s : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%1 : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}
plan.plan @two {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %0 = plan.task "sum" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %s = job.collective "all_reduce" by "ring" over [0, 1] tag 0 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %s : tensor<4xf32>
  }
  %far = plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%0 : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = job.copy %v to <1, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %1 = plan.task "sum@1" on <1, cpu:0> stream <network, 0> ins(%far : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %s = job.collective "all_reduce" by "ring" over [0, 1] tag 0 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %s : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%1 : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}

// -----

// The rates of a rank in the middle are those of the others: messages say how often they
// come.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @middle_0 rank 0
// CHECK:         job.send %{{.*}} to <1, cpu:0> tag 0 times 4 : tensor<4xf32>
// CHECK-LABEL: plan.plan @middle_1 rank 1
// CHECK:         job.receive from <0, cpu:0> tag 0 times 4 : tensor<4xf32>
// CHECK:         job.send %{{.*}} to <2, cpu:0> tag 1 times 4 : tensor<4xf32>
// CHECK-LABEL: plan.plan @middle_2 rank 2
// CHECK:         job.receive from <1, cpu:0> tag 1 times 4 : tensor<4xf32>
plan.plan @middle {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %p = plan.task "p" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.repeat %v times 4 : !t -> !t
    plan.yield %w : !t
  }
  %there = plan.task "there" on <1, cpu:0> stream <compute, 0> ins(%p : !t) -> !t {
  ^bb0(%v: !t):
    %w = job.copy %v to <1, cpu:0> : !t
    plan.yield %w : !t
  }
  %r = plan.task "r" on <1, cpu:0> stream <compute, 0> ins(%there : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.relu %v : !t -> !t
    plan.yield %w : !t
  }
  %on = plan.task "on" on <2, cpu:0> stream <compute, 0> ins(%r : !t) -> !t {
  ^bb0(%v: !t):
    %w = job.copy %v to <2, cpu:0> : !t
    plan.yield %w : !t
  }
  %sum = plan.task "sum" on <2, cpu:0> stream <compute, 0> ins(%on : !t) -> !t {
  ^bb0(%v: !t):
    %w = op.acc %v every 4 : !t -> !t
    plan.yield %w : !t
  }
  plan.task "y" on <2, cpu:0> stream <compute, 0> ins(%sum : !t) {
  ^bb0(%v: !t):
    job.output "y", %v : !t
    plan.yield
  }
}
