// RUN: penstock-opt %s -p 'plan-assign-streams{policy=critical-path streams=2 machine="cpu task_ns=0 switch_ns=10"}' | filecheck %s
// RUN: penstock-opt %s -p 'plan-assign-streams{policy=critical-path streams=2 machine="cpu task_ns=0 switch_ns=10"},plan-assign-streams{policy=critical-path streams=2 machine="cpu task_ns=0 switch_ns=10"}' | filecheck %s
// RUN: penstock-opt %s -p 'plan-assign-streams{policy=critical-path},plan-assign-streams' | filecheck %s --check-prefix=NAIVE
// RUN: not penstock-opt %s -p 'plan-assign-streams{policy=fast}' 2>&1 | filecheck %s --check-prefix=POLICY
// RUN: not penstock-opt %s -p 'plan-assign-streams{policy=critical-path machine="cuda"}' 2>&1 | filecheck %s --check-prefix=MACHINE

// POLICY:  plan-assign-streams: no stream policy 'fast' (penstock-opt --list stream-policy names them)
// MACHINE: plan-assign-streams: machine: expected a kind of device and its rates, got 'cuda'

// What a plan of one policy says is gone after the other.
// NAIVE-NOT: makespan_ns

!t = tensor<4xf32>

// Of two tasks that can begin, the one that most depends on goes first: "c", though "a"
// and "b" are listed before it. Measured times count. "naive" has "a" and "b" on stream
// 0 and 1, then "c" (100) and "d" (100 more) behind "a" (100); now "d" is over at 200, on
// the other stream run "a" and "b".

// CHECK-LABEL: plan.plan @long_chain
// CHECK-SAME:  makespan_ns = {lower_limit = 200 : i64, naive = 300 : i64, scheduled = 200 : i64}
plan.plan @long_chain {
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  // CHECK:      "c" on <0, cpu:0> stream <compute, 0> order 0
  // CHECK:      "a" on <0, cpu:0> stream <compute, 1> order 0
  // CHECK:      "b" on <0, cpu:0> stream <compute, 1> order 1
  // CHECK:      "d" on <0, cpu:0> stream <compute, 0> order 1
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 100 : i64} {
    %v = op.constant dense<1.0> : !t
    plan.yield %v : !t
  }
  %d = plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%c : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
}

// Where no order is better, that of the list stays. 10 ns from one stream to the other
// are more than the 3 ns that "naive" wants to gain.

// CHECK-LABEL: plan.plan @short_tasks
// CHECK-SAME:  makespan_ns = {lower_limit = 9 : i64, naive = 16 : i64, scheduled = 12 : i64}
plan.plan @short_tasks {
  // CHECK: "w" on <0, cpu:0> stream <compute, 0> ins()
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> order 3 ins() -> !t {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  // CHECK: "x" on <0, cpu:0> stream <compute, 0> order 0
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 3 : i64} {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // CHECK: "a" on <0, cpu:0> stream <compute, 0> order 1
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%w, %x : !t, !t) -> !t attributes {time_ns = 3 : i64} {
  ^bb0(%p: !t, %q: !t):
    %v = op.add %p, %q : !t, !t -> !t
    plan.yield %v : !t
  }
  // CHECK: "b" on <0, cpu:0> stream <compute, 0> order 2
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t attributes {time_ns = 3 : i64} {
  ^bb0(%p: !t):
    %v = op.relu %p : !t -> !t
    plan.yield %v : !t
  }
  // CHECK: "y" on <0, cpu:0> stream <compute, 0> order 3
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a : !t) attributes {time_ns = 3 : i64} {
  ^bb0(%p: !t):
    job.output "y", %p : !t
    plan.yield
  }
}

// Without measured times: what doubles 1024 floats reads and writes 8192 bytes, 10 of them
// in a nanosecond, and so does an input; the product of 64x64 matrices takes 2 * 64^3
// operations, 20 of them in a nanosecond.

// CHECK-LABEL: plan.plan @modelled
// CHECK-SAME:  lower_limit = 1640 : i64
plan.plan @modelled {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<1024xf32> {
    %v = job.input "x" : tensor<1024xf32>
    plan.yield %v : tensor<1024xf32>
  }
  // 820 + 820
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<1024xf32>) -> tensor<1024xf32> {
  ^bb0(%p: tensor<1024xf32>):
    %v = op.add %p, %p : tensor<1024xf32>, tensor<1024xf32> -> tensor<1024xf32>
    plan.yield %v : tensor<1024xf32>
  }
}

// CHECK-LABEL: plan.plan @heavy
// CHECK-SAME:  lower_limit = 29492 : i64
plan.plan @heavy {
  // 3277
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<64x64xf32> {
    %v = job.input "x" : tensor<64x64xf32>
    plan.yield %v : tensor<64x64xf32>
  }
  // 26215
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<64x64xf32>) -> tensor<64x64xf32> {
  ^bb0(%p: tensor<64x64xf32>):
    %v = op.matmul %p, %p : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    plan.yield %v : tensor<64x64xf32>
  }
}

// Copies run at the speed of the link to the device, and one between processors as what
// reads and writes.

// CHECK-LABEL: plan.plan @copies
// CHECK-SAME:  lower_limit = 14400 : i64
plan.plan @copies {
  // 12000 bytes at 12, and 5000
  %k = plan.task "k" on <0, cuda:0> stream <copy_h2d, 0> ins() -> tensor<3000xf32> attributes {time_ns = 0 : i64} {
    %v = job.input "x" : tensor<3000xf32>
    plan.yield %v : tensor<3000xf32>
  }
  %d = plan.task "d" on <0, cuda:0> stream <copy_h2d, 0> ins(%k : tensor<3000xf32>) -> tensor<3000xf32> {
  ^bb0(%p: tensor<3000xf32>):
    %v = job.copy %p to <0, cuda:0> : tensor<3000xf32>
    plan.yield %v : tensor<3000xf32>
  }
  // 12000 bytes at 12, and 5000
  %h = plan.task "h" on <0, cuda:0> stream <copy_d2h, 0> ins(%d : tensor<3000xf32>) -> tensor<3000xf32> {
  ^bb0(%p: tensor<3000xf32>):
    %v = job.copy %p to <0, cpu:0> : tensor<3000xf32>
    plan.yield %v : tensor<3000xf32>
  }
  // 24000 bytes at 10
  %o = plan.task "o" on <0, cpu:1> stream <compute, 0> ins(%h : tensor<3000xf32>) -> tensor<3000xf32> {
  ^bb0(%p: tensor<3000xf32>):
    %v = job.copy %p to <0, cpu:1> : tensor<3000xf32>
    plan.yield %v : tensor<3000xf32>
  }
}

// What reads a value that another task must write over stays before that task, though
// more time depends on the latter: 1 + 100 + 300 + 3 at least, not 1 + 300 + 3.

// CHECK-LABEL: plan.plan @must
// CHECK-SAME:  makespan_ns = {lower_limit = 404 : i64
// CHECK:       "b"
// CHECK:       "c"
// CHECK:       "a"
plan.plan @must {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t attributes {time_ns = 1 : i64} {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %b = plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p: !t):
    %v = op.exp %p : !t -> !t
    plan.yield %v : !t
  }
  %c = plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t attributes {time_ns = 100 : i64} {
  ^bb0(%p: !t):
    %v = op.exp %p : !t -> !t
    plan.yield %v : !t
  }
  %a = plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t attributes {time_ns = 300 : i64} {
  ^bb0(%p: !t):
    %v = op.relu %p {in_place = [#op.hint<must over 0>]} : !t -> !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a : !t) attributes {time_ns = 3 : i64} {
  ^bb0(%p: !t):
    job.output "y", %p : !t
    plan.yield
  }
}
