// RUN: penstock-opt %s -p plan-reduce-events | filecheck %s
// RUN: penstock-opt %s -p plan-reduce-events,plan-reduce-events | filecheck %s

!r = !regst.data<tensor<4xf32>>
!k = !regst.control

// Two chains that meet: only the last task of the other stream takes an event. Nothing
// waits for a variable.

// CHECK-LABEL: plan.plan @naive_streams
// CHECK-SAME:  events = {crossing = 1 : i64, needed = 1 : i64}
plan.plan @naive_streams {
  %p = regst.register "p" slots 1 on <0, host> : !r
  %a1 = regst.register "a1" slots 1 on <0, host> : !r
  %a2 = regst.register "a2" slots 1 on <0, host> : !r
  %b1 = regst.register "b1" slots 1 on <0, host> : !r
  %b2 = regst.register "b2" slots 1 on <0, host> : !r
  %s = regst.register "s" slots 1 on <0, host> : !r
  plan.task "p" on <0, cpu:0> stream <compute, 0> ins() outs(%p : !r) {
    %v = job.variable "p" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK-NOT: waits_for
  plan.task "b1" on <0, cpu:0> stream <compute, 1> ins(%p : !r) outs(%b1 : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b2" on <0, cpu:0> stream <compute, 1> ins(%b1 : !r) outs(%b2 : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "a1" on <0, cpu:0> stream <compute, 2> ins(%p : !r) outs(%a1 : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "a2" on <0, cpu:0> stream <compute, 2> ins(%a1 : !r) outs(%a2 : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK:     plan.task "add"
  // CHECK-SAME: attributes {waits_for = ["a2"]}
  // CHECK-NOT: waits_for
  plan.task "add" on <0, cpu:0> stream <compute, 1> ins(%a2, %b2 : !r, !r) outs(%s : !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    %v = op.add %0, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "R" on <0, cpu:0> stream <compute, 1> ins(%s : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "R", %0 : tensor<4xf32>
    plan.yield
  }
}

// "b" and "c" both read "x", and "c" comes after "b" in its stream: one event does. "d"
// waits for "c", which has waited for "x". What an earlier pass said goes.

// CHECK-LABEL: plan.plan @passed_on
// CHECK-SAME:  events = {crossing = 4 : i64, needed = 2 : i64}
plan.plan @passed_on {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  // CHECK-NOT: waits_for
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) attributes {waits_for = ["d"]} {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK:      plan.task "c"
  // CHECK-NOT:  waits_for
  plan.task "c" on <0, cpu:0> stream <compute, 1> order 1 ins(%x : !r) outs(%c : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.relu %0 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK:      plan.task "b"
  // CHECK-SAME: waits_for = ["x"]
  plan.task "b" on <0, cpu:0> stream <compute, 1> order 0 ins(%x : !r) {
  ^bb0(%0: tensor<4xf32>):
    job.output "b", %0 : tensor<4xf32>
    plan.yield
  }
  // CHECK:      plan.task "d"
  // CHECK-SAME: waits_for = ["c"]
  plan.task "d" on <0, cpu:0> stream <compute, 2> ins(%x, %c : !r, !r) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// "a -> b" says what "a" has written for "b" says too, and "turn" lets "a" act again after
// "b", as the one slot of "a" does. "late" keeps nobody from anything. "ahead" goes, because
// "a" has one slot. A register that holds data stays.

// CHECK-LABEL: plan.plan @implied
// CHECK-NOT:   a -> b
// CHECK-NOT:   turn
// CHECK-NOT:   late
// CHECK-NOT:   ahead
plan.plan @implied {
  // CHECK: regst.register "a"
  // CHECK: regst.register "again"
  %a = regst.register "a" slots 1 on <0, host> : !r
  %again = regst.register "again" slots 1 on <0, host> : !r
  %ab = regst.register "a -> b" slots 1 on <0, host> : !k
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !k
  %late = regst.register "late" slots 3 initial 2 on <0, host> : !k
  %ahead = regst.register "ahead" slots 2 on <0, host> : !k
  // CHECK:     plan.task "a"
  // CHECK-NOT: signals
  // CHECK:     plan.task "b"
  // CHECK-NOT: waits
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a, %again : !r, !r) waits(%turn : !k) signals(%ab, %late, %ahead : !k, !k, !k) {
    %v, %w = "test.op"() : () -> (tensor<4xf32>, tensor<4xf32>)
    plan.yield %v, %w : tensor<4xf32>, tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a, %again : !r, !r) waits(%ab, %late, %ahead : !k, !k, !k) signals(%turn : !k) {
  ^bb0(%0: tensor<4xf32>, %1: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// "b" follows "a" by way of a third task already, but that "a" may act again only after "b"
// is said by "a -> b" and by "turn" alone: the first one stays.

// CHECK-LABEL: plan.plan @by_way_of_a_third
plan.plan @by_way_of_a_third {
  %a = regst.register "a" slots 2 on <0, host> : !r
  %m = regst.register "m" slots 2 on <0, host> : !r
  // CHECK:     regst.register "a -> b"
  // CHECK-NOT: "turn"
  // CHECK:     plan.task "a"
  %ab = regst.register "a -> b" slots 1 on <0, host> : !k
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !k
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) waits(%turn : !k) signals(%ab : !k) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "m" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%m : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%m : !r) waits(%ab : !k) signals(%turn : !k) {
  ^bb0(%0: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// Two slots let "a" act twice before "b" does, one of "a -> b" only once: it stays.

// CHECK-LABEL: plan.plan @needed
plan.plan @needed {
  %a = regst.register "a" slots 2 on <0, host> : !r
  // CHECK: regst.register "a -> b"
  %ab = regst.register "a -> b" slots 1 on <0, host> : !k
  // CHECK:      plan.task "a"
  // CHECK-SAME: signals
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) signals(%ab : !k) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK:      plan.task "b"
  // CHECK-SAME: waits
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) waits(%ab : !k) {
  ^bb0(%0: tensor<4xf32>):
    "test.op"() : () -> ()
    plan.yield
  }
}

// A register without a free slot orders its writer after its readers.

// CHECK-LABEL: plan.plan @full
plan.plan @full {
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !k
  // CHECK:      plan.task "a"
  // CHECK-SAME: waits_for = ["b"]
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() signals(%turn : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  // CHECK:      plan.task "b"
  // CHECK-NOT:  waits_for
  plan.task "b" on <0, cuda:0> stream <compute, 0> ins() waits(%turn : !k) {
    "test.op"() : () -> ()
    plan.yield
  }
}

// Before values are registers there is nothing to do, whatever control says already.

// CHECK-LABEL: plan.plan @controlled
// CHECK-NOT:   events
// CHECK-NOT:   waits_for
plan.plan @controlled {
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() signals(%k : !regst.control) -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 1> ins(%x : tensor<4xf32>) waits(%k : !regst.control) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
}

// Before there are registers there is nothing to do.

// CHECK-LABEL: plan.plan @values
// CHECK-NOT:   events
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 1> ins(%x : tensor<4xf32>) {
  ^bb0(%0: tensor<4xf32>):
    job.output "y", %0 : tensor<4xf32>
    plan.yield
  }
}

// A plan of several jobs is left as it is: a task of a main job waits for the registers
// of one section at a time, so that none of them follows from the others.

// CHECK-LABEL: plan.plan @merged
// CHECK-NOT:   events
plan.plan @merged {
  // CHECK: regst.register "a -> esac"
  // CHECK: regst.register "a -> esac, again"
  %first = regst.register "a -> esac" slots 1 on <0, host> : !k
  %second = regst.register "a -> esac, again" slots 1 on <0, host> : !k
  %n = regst.register "n" slots 1 on <0, host> : !regst.data<tensor<i64>>
  // CHECK: plan.task "a" {{.*}} signals(%first, %second :
  plan.task "a" job "a" on <0, cpu:0> stream <tick, 0> ins() signals(%first, %second : !k, !k) {
    job.sink_tick "total"
    plan.yield
  }
  // CHECK: plan.task "esac" {{.*}} waits(%first, %second :
  plan.task "esac" job "System-Main" on <0, cpu:0> stream <main, 0> ins() outs(%n : !regst.data<tensor<i64>>) waits(%first, %second : !k, !k) {
    %v = job.esac ["a", "b"]
    plan.yield %v : tensor<i64>
  }
}
