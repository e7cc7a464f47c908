// RUN: penstock-opt %s -p plan-create-registers,regst-alias-registers | filecheck %s
// RUN: penstock-opt %s -p plan-create-registers,regst-alias-registers,verify-plan --split-input-file

// A repeated piece, and the parts of an unpacked one, lie in what is read, in so many
// slots for each of its. Nothing else is an alias where tasks act at different rates.
// CHECK-LABEL: plan.plan @shown
plan.plan @shown {
  // CHECK: %[[X:.+]] = regst.register "x/out" slots 1
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4x2xf32> {
    %v = job.input "x" : tensor<4x2xf32>
    plan.yield %v : tensor<4x2xf32>
  }
  // CHECK: regst.register "u/out" alias %[[X]] : !regst.data<tensor<4x2xf32>> slots 2 {{.*}} : !regst.data<tensor<2x2xf32>>
  %u = plan.task "u" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%v: tensor<4x2xf32>):
    %r = op.unpack %v by 2 : tensor<4x2xf32> -> tensor<2x2xf32>
    plan.yield %r : tensor<2x2xf32>
  }
  // CHECK: %[[S:.+]] = regst.register "s/out" slots 1
  %s = plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%u : tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%v: tensor<2x2xf32>):
    %r = op.relu %v : tensor<2x2xf32> -> tensor<2x2xf32>
    plan.yield %r : tensor<2x2xf32>
  }
  // CHECK: %[[T:.+]] = regst.register "t/out" alias %[[S]] : !regst.data<tensor<2x2xf32>> slots 3 {{.*}} : !regst.data<tensor<2x2xf32>>
  %t = plan.task "t" on <0, cpu:0> stream <compute, 0> ins(%s : tensor<2x2xf32>) -> tensor<2x2xf32> {
  ^bb0(%v: tensor<2x2xf32>):
    %r = op.repeat %v times 3 : tensor<2x2xf32> -> tensor<2x2xf32>
    plan.yield %r : tensor<2x2xf32>
  }
  // What is read is an alias itself.
  // CHECK: regst.register "w/out" slots 1 {{.*}} {no_alias = "source: 't/out' lies on something else"}
  %w = plan.task "w" on <0, cpu:0> stream <compute, 0> ins(%t : tensor<2x2xf32>) -> tensor<1x2xf32> {
  ^bb0(%v: tensor<2x2xf32>):
    %r = op.unpack %v by 2 : tensor<2x2xf32> -> tensor<1x2xf32>
    plan.yield %r : tensor<1x2xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%w : tensor<1x2xf32>) {
  ^bb0(%v: tensor<1x2xf32>):
    job.output "y", %v : tensor<1x2xf32>
    plan.yield
  }
}

// A hint keeps it off, and so does other memory.
// CHECK-LABEL: plan.plan @kept_off
plan.plan @kept_off {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK: regst.register "t/out" slots 1 {{.*}} {no_alias = "never: a hint keeps it off operand 0"}
  %t = plan.task "t" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = op.repeat %v times 3 {in_place = [#op.hint<never>]} : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%t : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}

// A part of 8 bytes starts where a device does not read.
// CHECK-LABEL: plan.plan @unaligned
plan.plan @unaligned {
  %x = plan.task "x" on <0, cuda:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK: regst.register "t/out" slots 1 {{.*}} {no_alias = "alignment: byte 8 is no multiple of 16"}
  %t = plan.task "t" on <0, cuda:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<2xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = op.unpack %v by 2 : tensor<4xf32> -> tensor<2xf32>
    plan.yield %r : tensor<2xf32>
  }
}

// A variable is not read in turns.
// CHECK-LABEL: plan.plan @of_a_variable
plan.plan @of_a_variable {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.variable "x" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK: regst.register "t/out" slots 1 {{.*}} {no_alias = "variable: 'x/out' is one"}
  %t = plan.task "t" on <0, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) -> tensor<2xf32> {
  ^bb0(%v: tensor<4xf32>):
    %r = op.unpack %v by 2 : tensor<4xf32> -> tensor<2xf32>
    plan.yield %r : tensor<2xf32>
  }
}

// The next but one piece comes before the first is done with: there is one slot for it.
// CHECK-LABEL: plan.plan @held
plan.plan @held {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // CHECK: regst.register "t" slots 4 {{.*}} {no_alias = "slots: those of 'x' would be held for too long"}
  %t = regst.register "t" slots 4 on <0, host> : !regst.data<tensor<4xf32>>
  %s = regst.register "s" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %z = regst.register "z" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %y = regst.register "y" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "t" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%t : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.repeat %v times 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%s : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.acc %v every 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "q" on <0, cpu:0> stream <compute, 0> ins(%s : !regst.data<tensor<4xf32>>) outs(%y : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.repeat %v times 4 {in_place = [#op.hint<never>]} : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%t, %y : !regst.data<tensor<4xf32>>, !regst.data<tensor<4xf32>>) outs(%z : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>, %w: tensor<4xf32>):
    %r = op.add %v, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}
