// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-tasks | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-tasks,plan-order-tasks | filecheck %s
// RUN: penstock-opt %s -p 'convert-job-to-plan,plan-order-tasks{budget=0}' | filecheck %s --check-prefix=GREEDY
// RUN: penstock-opt %s -p 'convert-job-to-plan,plan-order-tasks{in-place=true}' | filecheck %s --check-prefix=INPLACE
// RUN: penstock-opt %s -p 'convert-job-to-plan,plan-order-tasks{policy="source"}' | filecheck %s --check-prefix=SOURCE

!small = tensor<4xf32>   // 16 bytes
!thin = tensor<4x1xf32>  // 16 bytes
!wide = tensor<4x16xf32> // 256 bytes

// Of two branches that are wide in the middle, one is run to its end before the other
// begins. Listed side by side, both are wide at once: 16 for x + 256 + 256, and then
// 256 + 256 + 16 for the first sum. One by one: 16 for x, or for the first sum, + 256 + 16.

// CHECK-LABEL: plan.plan @diamond
// CHECK-SAME:    {live_bytes = {source = 528 : i64, ordered = 288 : i64, lower_limit = 288 : i64}}
// CHECK:         plan.task "x"
// CHECK-NEXT:      job.input
// CHECK:         plan.task "a"
// CHECK:         plan.task "sum_a"
// CHECK:         plan.task "b"
// CHECK:         plan.task "sum_b"
// CHECK:         plan.task "y"

// Without a search there is nothing but list schedules, and what the neediest task takes
// as a limit.

// GREEDY-LABEL: plan.plan @diamond
// GREEDY-SAME:    {live_bytes = {source = 528 : i64, ordered = 288 : i64, lower_limit = 272 : i64}}

// The order stays if that is asked for; what it needs is said all the same.

// SOURCE-LABEL: plan.plan @diamond
// SOURCE-SAME:    {live_bytes = {source = 528 : i64, ordered = 528 : i64, lower_limit = 272 : i64}}
// SOURCE:         plan.task "a"
// SOURCE:         plan.task "b"
// SOURCE:         plan.task "sum_a"
// SOURCE:         plan.task "sum_b"
job.job @diamond placement <cpu, [0:0]> {
  %x = job.input "x" : !thin
  %a = op.expand %x to [4, 16] : !thin -> !wide
  %b = op.expand %x to [4, 16] : !thin -> !wide
  %sum_a = op.reduce_sum %a axes [1] : !wide -> !small
  %sum_b = op.reduce_sum %b axes [1] : !wide -> !small
  %y = op.add %sum_a, %sum_b : !small, !small -> !small
  job.output "y", %y : !small
}

// An order that needs as little as any other stays as it is. Of three values in a row two
// are alive at once.

// CHECK-LABEL: plan.plan @chain
// CHECK-SAME:    {live_bytes = {source = 272 : i64, ordered = 272 : i64, lower_limit = 272 : i64}}
// CHECK:         plan.task "w"
// CHECK:         plan.task "x"
// CHECK:         plan.task "unneeded"
// CHECK:         plan.task "a"
// CHECK:         plan.task "s"
// CHECK:         plan.task "early"
// CHECK:         plan.task "w2"
// CHECK:         plan.task "t"
job.job @chain placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : !wide
  %x = job.input "x" : !thin
  %unneeded = op.relu %x : !thin -> !thin
  %a = op.expand %x to [4, 16] : !thin -> !wide
  %s = op.reduce_sum %a axes [1] : !wide -> !small
  job.output "early", %s : !small
  %w2 = job.variable "w2" init <zeros> : !small
  %t = op.add %s, %w2 : !small, !small -> !small
  job.output "y", %t : !small
}

// Inputs are fed when they are needed, and outputs fetched when they are there. Where
// tasks move, variables are listed first; they take no part. Listed as here, 256 + 256
// for both inputs + 16 are alive; as they are needed, 256 for the second + 2 x 16.

// CHECK-LABEL: plan.plan @edges
// CHECK-SAME:    {live_bytes = {source = 528 : i64, ordered = 288 : i64, lower_limit = 288 : i64}}
// CHECK:         plan.task "w"
// CHECK:         plan.task "p"
// CHECK:         plan.task "sum_p"
// CHECK:         plan.task "moved"
// CHECK:         plan.task "first"
// CHECK:         plan.task "q"
// CHECK:         plan.task "sum_q"
job.job @edges placement <cpu, [0:0]> {
  %p = job.input "p" : !wide
  %q = job.input "q" : !wide
  %w = job.variable "w" init <zeros> : !small
  %sum_p = op.reduce_sum %p axes [1] : !wide -> !small
  %moved = op.add %sum_p, %w : !small, !small -> !small
  %sum_q = op.reduce_sum %q axes [1] : !wide -> !small
  job.output "first", %moved : !small
  %r = op.add %sum_q, %moved : !small, !small -> !small
  job.output "second", %r : !small
}

// A result that may take the place of an operand does so only on request. Then a relu
// adds nothing if it is the last to read its operand: 256 + 16 for the sum. Otherwise 2 x
// 256 are alive at the relu, and 16 for the sum if that is not fetched before it.

// CHECK-LABEL:   plan.plan @over
// CHECK-SAME:      {live_bytes = {source = 528 : i64, ordered = 512 : i64, lower_limit = 512 : i64}}
// INPLACE-LABEL: plan.plan @over
// INPLACE-SAME:    {live_bytes = {source = 528 : i64, ordered = 272 : i64, lower_limit = 272 : i64}}
// INPLACE:         plan.task "x"
// INPLACE:         plan.task "s"
// INPLACE:         plan.task "r"
job.job @over placement <cpu, [0:0]> {
  %x = job.input "x" : !wide
  %r = op.relu %x : !wide -> !wide
  %s = op.reduce_sum %x axes [1] : !wide -> !small
  job.output "r", %r : !wide
  job.output "s", %s : !small
}

// Only where all operands that are the same value may be overwritten can a result take
// its place: those of a matrix product may not.

// INPLACE-LABEL: plan.plan @not_over
// INPLACE-SAME:    {live_bytes = {source = 128 : i64, ordered = 128 : i64, lower_limit = 128 : i64}}
job.job @not_over placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %r = op.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "r", %r : tensor<4x4xf32>
}

// A value counts as often as it has slots: 3 x 16 + 16.

// CHECK-LABEL: plan.plan @slots
// CHECK-SAME:    {live_bytes = {source = 64 : i64, ordered = 64 : i64, lower_limit = 64 : i64}}
job.job @slots placement <cpu, [0:0]> {
  %x = job.input "x" {slots = 3 : i64} : !small
  %y = op.relu %x : !small -> !small
  job.output "y", %y : !small
}

// A plan that was ordered keeps its order, whatever its report says.

// CHECK-LABEL: plan.plan @reported
// CHECK-SAME:    {live_bytes = "by hand"}
// CHECK:         plan.task "y"
// CHECK:         plan.task "z"
plan.plan @reported attributes {live_bytes = "by hand"} {
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> ins() -> !wide {
    %v = op.constant dense<1.0> : !wide
    plan.yield %v : !wide
  }
  %z = plan.task "z" on <0, cpu:0> stream <compute, 0> ins() -> !wide {
    %v = op.constant dense<1.0> : !wide
    plan.yield %v : !wide
  }
  plan.task "yy" on <0, cpu:0> stream <compute, 0> ins(%y : !wide) {
  ^bb0(%v: !wide):
    job.output "y", %v : !wide
    plan.yield
  }
}

// So does one whose tasks have places in their streams.

// CHECK-LABEL: plan.plan @numbered {
// CHECK:         plan.task "y"
// CHECK:         plan.task "z"
plan.plan @numbered {
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> order 1 ins() -> !wide {
    %v = op.constant dense<1.0> : !wide
    plan.yield %v : !wide
  }
  %z = plan.task "z" on <0, cpu:0> stream <compute, 0> order 0 ins() -> !wide {
    %v = op.constant dense<1.0> : !wide
    plan.yield %v : !wide
  }
}

// So does one with registers.

// CHECK-LABEL: plan.plan @registers {
plan.plan @registers {
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<!small>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<!small>) {
    %v = op.constant dense<1.0> : !small
    plan.yield %v : !small
  }
}

// So does one with a value of unknown size.

// CHECK-LABEL: plan.plan @unknown {
plan.plan @unknown {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<?xf32> {
    %v = job.input "x" : tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
}

// A plan without tasks needs nothing.

// CHECK-LABEL: plan.plan @empty
// CHECK-SAME:    {live_bytes = {source = 0 : i64, ordered = 0 : i64, lower_limit = 0 : i64}}
plan.plan @empty {
^bb0:
}

// The body of a loop needs 1024 bytes for what it expands and as many for its
// exponentials, which lie over them in place. While it runs %big is not to be there, too.

// CHECK-LABEL: plan.plan @body
// CHECK-SAME:    {live_bytes = {source = 3104 : i64, ordered = 2080 : i64, lower_limit = 2080 : i64}}
// CHECK:         plan.task "s"
// CHECK:           plan.plan @body attributes {live_bytes = {source = 2048 : i64,
// CHECK:         plan.task "big"
// INPLACE-LABEL: plan.plan @body
// INPLACE-SAME:    {live_bytes = {source = 2080 : i64, ordered = 1072 : i64, lower_limit = 1072 : i64}}
// INPLACE:         plan.task "s"
// INPLACE:         plan.task "big"
job.job @body placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %big = op.expand %x to [64, 4] : tensor<4xf32> -> tensor<64x4xf32>
  %s = op.loop 5 carries(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    %e = op.expand %c to [64, 4] : tensor<4xf32> -> tensor<64x4xf32>
    %f = op.exp %e : tensor<64x4xf32> -> tensor<64x4xf32>
    %m = op.reduce_sum %f axes [0] : tensor<64x4xf32> -> tensor<4xf32>
    op.yield %m : tensor<4xf32>
  }
  %y = op.add %big, %s : tensor<64x4xf32>, tensor<4xf32> -> tensor<64x4xf32>
  job.output "y", %y : tensor<64x4xf32>
}

// Slices, values that are read and values that are stacked lie around a body, whose
// memory needs 256 bytes for %b alone; of branches the larger one counts, beside %c, %ys
// and %z.

// CHECK-LABEL: plan.plan @around
// CHECK-SAME:    {live_bytes = {source = 3841 : i64,
// CHECK:         plan.task "ys"
// CHECK:           plan.plan @around attributes {live_bytes = {source = 256 : i64,
// CHECK:         plan.task "z"
// CHECK:           plan.plan @around attributes {live_bytes = {source = 0 : i64,
// CHECK:           plan.plan @around attributes {live_bytes = {source = 1280 : i64,
job.job @around placement <cpu, [0:0]> {
  %xs = job.input "xs" : tensor<5x4x16xf32>
  %c = job.input "c" : tensor<i1>
  %ys = op.loop 5 slices(%xs : tensor<5x4x16xf32>) reads(%xs : tensor<5x4x16xf32>)
      -> tensor<5x4x16xf32> {
  ^bb0(%i: tensor<i64>, %x: !wide, %r: tensor<5x4x16xf32>):
    %b = op.reduce_sum %r axes [0] : tensor<5x4x16xf32> -> !wide
    %d = op.add %b, %x : !wide, !wide -> !wide
    op.yield %d : !wide
  }
  %z = op.if %c reads(%ys : tensor<5x4x16xf32>) -> tensor<5x4x16xf32> {
  ^bb0(%a: tensor<5x4x16xf32>):
    %e = op.exp %a : tensor<5x4x16xf32> -> tensor<5x4x16xf32>
    op.yield %e : tensor<5x4x16xf32>
  } else {
  ^bb0(%a: tensor<5x4x16xf32>):
    %e = op.exp %a : tensor<5x4x16xf32> -> tensor<5x4x16xf32>
    %f = op.exp %e : tensor<5x4x16xf32> -> tensor<5x4x16xf32>
    op.yield %f : tensor<5x4x16xf32>
  }
  job.output "z", %z : tensor<5x4x16xf32>
}
