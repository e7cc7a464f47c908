// RUN: penstock-opt %s -p plan-create-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p plan-create-registers,plan-create-registers --split-input-file | filecheck %s

// What a task hands on lies in a register of that name, in the memory of its device.
// Registers come first, and tasks keep their bodies.

// CHECK-LABEL: plan.plan @names
// CHECK-NEXT:    %[[X:.+]] = regst.register "x/out" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:    %[[H:.+]] = regst.register "h/out" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
plan.plan @names {
  // CHECK-NEXT:  plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() outs(%[[X]] : !regst.data<tensor<4xf32>>) {
  // CHECK-NEXT:    %[[V:.+]] = job.input "x" : tensor<4xf32>
  // CHECK-NEXT:    plan.yield %[[V]] : tensor<4xf32>
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> order 0 ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK:       plan.task "h" on <0, cpu:0> stream <compute, 1> ins(%[[X]] : !regst.data<tensor<4xf32>>) outs(%[[H]] : !regst.data<tensor<4xf32>>) {
  // CHECK-NEXT:  ^bb0(%[[A:.+]]: tensor<4xf32>):
  // CHECK-NEXT:    op.relu %[[A]]
  %h = plan.task "h" on <0, cpu:0> stream <compute, 1> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = op.relu %a : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  // CHECK:       plan.task "y" on <0, cpu:0> stream <compute, 0> order 1 ins(%[[H]] : !regst.data<tensor<4xf32>>) {
  // CHECK-NEXT:  ^bb0(%[[A:.+]]: tensor<4xf32>):
  // CHECK-NEXT:    job.output "y", %[[A]]
  plan.task "y" on <0, cpu:0> stream <compute, 0> order 1 ins(%h : tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    job.output "y", %a : tensor<4xf32>
    plan.yield
  }
}

// -----

// Each result has a register of its own; tasks keep what they wait for and signal.

// CHECK-LABEL: plan.plan @several
plan.plan @several {
  %k = regst.register "k" slots 1 initial 1 on <0, host> : !regst.control
  // CHECK:      %[[A:.+]] = regst.register "s/out" slots 1 on <0, host> : !regst.data<tensor<2xf32>>
  // CHECK-NEXT: %[[B:.+]] = regst.register "s/out_1" slots 1 on <0, host> : !regst.data<tensor<3xi1>>
  // CHECK-NEXT: plan.task "s" on <0, cpu:0> stream <compute, 0> ins() outs(%[[A]], %[[B]] : !regst.data<tensor<2xf32>>, !regst.data<tensor<3xi1>>) waits(%k : !regst.control) signals(%k : !regst.control)
  %a, %b = plan.task "s" on <0, cpu:0> stream <compute, 0> ins() waits(%k : !regst.control) signals(%k : !regst.control) -> tensor<2xf32>, tensor<3xi1> {
    %v, %w = "test.op"() : () -> (tensor<2xf32>, tensor<3xi1>)
    plan.yield %v, %w : tensor<2xf32>, tensor<3xi1>
  }
}

// -----

// A task may ask for slots. What it asks for stays, so that others keep to it.

// CHECK-LABEL: plan.plan @asked
plan.plan @asked {
  // CHECK-NEXT: regst.register "x/out" slots 3 on
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {slots = 3 : i64, acme.note = "kept"} {
  // CHECK:      plan.task "x" {{.*}} attributes {slots = 3 : i64, acme.note = "kept"} {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// A copy between devices has two slots, so that the next one can start early. On its
// way from or to a host, data lies in memory that is pinned for the other device.

// CHECK-LABEL: plan.plan @copies
// CHECK-NEXT:    regst.register "x/out" slots 1 on <0, pinned cuda:0> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:    regst.register "to_device/out" slots 2 on <0, device cuda:0> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:    regst.register "r/out" slots 1 on <0, device cuda:0> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:    regst.register "to_host/out" slots 2 on <0, pinned cuda:0> : !regst.data<tensor<4xf32>>
// CHECK-NEXT:    regst.register "x/out_again/out" slots 2 on <0, device cuda:1> : !regst.data<tensor<4xf32>>
plan.plan @copies {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %d = plan.task "to_device" on <0, cuda:0> stream <copy_h2d, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <0, cuda:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %s = plan.task "r" on <0, cuda:0> stream <compute, 0> ins(%d : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = op.relu %a : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %h = plan.task "to_host" on <0, cuda:0> stream <copy_d2h, 0> ins(%s : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %v = job.copy %a to <0, cpu:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // What is copied to two devices is pinned for the first.
  %e = plan.task "x/out_again" on <0, cuda:1> stream <copy_h2d, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %v = job.copy %a to <0, cuda:1> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// A copy on one device is a task like another. Between processors nothing is pinned.

// CHECK-LABEL: plan.plan @host_copies
// CHECK-NEXT:    regst.register "x/out" slots 1 on <0, host>
// CHECK-NEXT:    regst.register "same/out" slots 1 on <0, host>
// CHECK-NEXT:    regst.register "other/out" slots 2 on <0, host>
plan.plan @host_copies {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %s = plan.task "same" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <0, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %o = plan.task "other" on <0, cpu:1> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <0, cpu:1> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}

// -----

// Each kind of task gets the slots it asks for.

// CHECK-LABEL: plan.plan @each_kind
// CHECK-NEXT:    regst.register "in/out" slots 4 on
// CHECK-NEXT:    regst.register "up/out" slots 1 on
// CHECK-NEXT:    regst.register "sum/out" slots 5 on
// CHECK-NEXT:    regst.register "w/out" slots 1 on
// CHECK-NEXT:    regst.register "c/out" slots 1 on
plan.plan @each_kind {
  %x = plan.task "in" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {slots = 4 : i64} {
    %v = job.input "in" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %d = plan.task "up" on <0, cuda:0> stream <copy_h2d, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> attributes {slots = 1 : i64} {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <0, cuda:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %s = plan.task "sum" on <0, cuda:0> stream <compute, 0> ins(%d : tensor<4xf32>) -> tensor<4xf32> attributes {slots = 5 : i64} {
  ^bb0(%a: tensor<4xf32>):
    %r = op.add %a, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> attributes {slots = 1 : i64} {
    %v = job.variable "w" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> tensor<2xf32> {
    %v = op.constant dense<[1.0, 2.0]> : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
}

// -----

// What goes to another rank and what comes from there lies in memory for the network, also
// where it is pinned. Memory of one rank is not pinned for a device of another.

// CHECK-LABEL: plan.plan @ranks
// CHECK-NEXT:    regst.register "x/out" slots 1 on <0, network>
// CHECK-NEXT:    regst.register "far/out" slots 2 on <1, device cuda:0>
// CHECK-NEXT:    regst.register "there/out" slots 2 on <1, pinned_network cuda:3>
// CHECK-NEXT:    regst.register "up/out" slots 2 on <1, device cuda:3>
// CHECK-NEXT:    regst.register "down/out" slots 2 on <1, pinned_network cuda:3>
// CHECK-NEXT:    regst.register "back/out" slots 2 on <0, network>
plan.plan @ranks {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %o = plan.task "far" on <1, cuda:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <1, cuda:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %t = plan.task "there" on <1, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <1, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %u = plan.task "up" on <1, cuda:3> stream <copy_h2d, 0> ins(%t : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <1, cuda:3> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %d = plan.task "down" on <1, cuda:3> stream <copy_d2h, 0> ins(%u : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <1, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  %b = plan.task "back" on <0, cpu:0> stream <compute, 0> ins(%d : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %r = job.copy %a to <0, cpu:0> : tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}

// -----

// What has a dynamic shape has a maximum, and a header with a slot for each of its own. That
// of what lies on a device is pinned for it. One maximum may do for all results.

// CHECK-LABEL: plan.plan @dynamic
// CHECK-NEXT:    %[[X:.+]] = regst.register "x/out" slots 3 on <0, pinned cuda:0> : !regst.data<tensor<?x4xf32>, max [8, 4]>
// CHECK-NEXT:    regst.register "x/out/header" slots 3 header "x/out" on <0, pinned cuda:0> : !regst.data<tensor<2xi64>>
// CHECK-NEXT:    %[[UP:.+]] = regst.register "up/out" slots 2 on <0, device cuda:0> : !regst.data<tensor<?x4xf32>, max [8, 4]>
// CHECK-NEXT:    regst.register "up/out/header" slots 2 header "up/out" on <0, pinned cuda:0> : !regst.data<tensor<2xi64>>
// CHECK-NEXT:    regst.register "s/out" slots 1 on <0, host> : !regst.data<tensor<?xf32>, max [5]>
// CHECK-NEXT:    regst.register "s/out/header" slots 1 header "s/out" on <0, host> : !regst.data<tensor<1xi64>>
// CHECK-NEXT:    regst.register "s/out_1" slots 1 on <0, host> : !regst.data<tensor<2xf32>>
// CHECK-NEXT:    regst.register "s/out_2" slots 1 on <0, host> : !regst.data<tensor<?x?xf32>, max [6, 7]>
// CHECK-NEXT:    regst.register "s/out_2/header" slots 1 header "s/out_2" on <0, host> : !regst.data<tensor<2xi64>>
// CHECK-NEXT:    regst.register "t/out" slots 1 on <0, host> : !regst.data<tensor<?xf32>, max [9]>
// CHECK-NEXT:    regst.register "t/out/header"
// CHECK-NEXT:    regst.register "t/out_1" slots 1 on <0, host> : !regst.data<tensor<?xi8>, max [9]>
// CHECK-NEXT:    regst.register "t/out_1/header"
plan.plan @dynamic {
  // CHECK-NEXT:  plan.task "x" {{.*}} outs(%[[X]] : !regst.data<tensor<?x4xf32>, max [8, 4]>)
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?x4xf32> attributes {slots = 3 : i64, max_shape = array<i64: 8, 4>} {
    %v = job.input "x" : tensor<?x4xf32>
    plan.yield %v : tensor<?x4xf32>
  }
  %d = plan.task "up" on <0, cuda:0> stream <copy_h2d, 0> ins(%x : tensor<?x4xf32>) -> tensor<?x4xf32> attributes {max_shape = array<i64: 8, 4>} {
  ^bb0(%a: tensor<?x4xf32>):
    %r = job.copy %a to <0, cuda:0> : tensor<?x4xf32>
    plan.yield %r : tensor<?x4xf32>
  }
  %a, %b, %c = plan.task "s" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?xf32>, tensor<2xf32>, tensor<?x?xf32> attributes {max_shape = [array<i64: 5>, array<i64: 6, 7>]} {
    %u, %v, %w = "test.op"() : () -> (tensor<?xf32>, tensor<2xf32>, tensor<?x?xf32>)
    plan.yield %u, %v, %w : tensor<?xf32>, tensor<2xf32>, tensor<?x?xf32>
  }
  %e, %f = plan.task "t" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?xf32>, tensor<?xi8> attributes {max_shape = array<i64: 9>} {
    %u, %v = "test.op"() : () -> (tensor<?xf32>, tensor<?xi8>)
    plan.yield %u, %v : tensor<?xf32>, tensor<?xi8>
  }
}

// -----

// The results of a loop have the slots that it asks for. One actor makes all iterations
// of all pieces, so its bodies have one set of registers, in one slot.

// CHECK-LABEL: plan.plan @slots
// CHECK:         regst.register "b/out" slots 3
// CHECK:         regst.register "b/memory" slots 1
plan.plan @slots {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "a" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : tensor<4xf32>) -> tensor<4xf32> attributes {slots = 3 : i64} {
  ^bb0(%v: tensor<4xf32>):
    %r = op.loop 3 carries(%v : tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
      %d = op.exp %c : tensor<4xf32> -> tensor<4xf32>
      op.yield %d : tensor<4xf32>
    }
    plan.yield %r : tensor<4xf32>
  } with {
    plan.plan @slots {
      // CHECK:  regst.register "d/out" slots 1
      %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
        %v = job.input "in_1" : tensor<4xf32>
        plan.yield %v : tensor<4xf32>
      }
      %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : tensor<4xf32>) -> tensor<4xf32> {
      ^bb0(%v: tensor<4xf32>):
        %e = op.exp %v : tensor<4xf32> -> tensor<4xf32>
        plan.yield %e : tensor<4xf32>
      }
      plan.task "out_0" on <0, cpu:0> stream <compute, 0> ins(%d : tensor<4xf32>) {
      ^bb0(%v: tensor<4xf32>):
        job.output "out_0", %v : tensor<4xf32>
        plan.yield
      }
    }
  }
}
