// RUN: penstock-opt %s -p convert-plan-to-launch --verify-diagnostics --split-input-file

// expected-error@+1 {{convert-plan-to-launch: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{convert-plan-to-launch: registers have no place yet, run regst-plan-memory first}}
plan.plan @no_places {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// All ops without kernels are listed.

plan.plan @no_kernels {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() {
    // expected-error@+1 {{convert-plan-to-launch: test.op has no kernel: it is no op on tensors}}
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() {
    // expected-error@+1 {{convert-plan-to-launch: test.pureop has no kernel: it is no op on tensors}}
    "test.pureop"() : () -> ()
    plan.yield
  }
}

// -----

plan.plan @ranks {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  // expected-error@+1 {{convert-plan-to-launch: register 'x' is shared by ranks 0, 1, which run in one process with simulate-ranks=true only}}
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{convert-plan-to-launch: register 'k' is shared by ranks 0, 1, 2, which run in one process with simulate-ranks=true only}}
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) waits(%k : !regst.control) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
  %z = regst.chunk on <2, host> size 16
  %n = regst.block in %z at 0 size 16
  %a = regst.register "a" in %n at 0 slots 1 on <2, host> : !regst.data<tensor<4xf32>>
  plan.task "z" on <2, cpu:0> stream <compute, 0> ins() outs(%a : !regst.data<tensor<4xf32>>) signals(%k : !regst.control) {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// A variable that waited would be waited for forever.

plan.plan @acting_variable {
  %c = regst.chunk on <0, host> size 16
  %m = regst.block in %c at 0 size 16
  %w = regst.register "w" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  // expected-error@+1 {{convert-plan-to-launch: variable 'w' waits or signals, but never acts}}
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !regst.data<tensor<4xf32>>) signals(%k : !regst.control) {
    %v = job.variable "w" init <zeros> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @yields_its_argument {
  %c = regst.chunk on <0, host> size 80
  %m = regst.block in %c at 0 size 80
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %y = regst.register "y" in %m at 64 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%y : !regst.data<tensor<4xf32>>) {
  ^bb0(%a: tensor<4xf32>):
    %v = op.relu %a : tensor<4xf32> -> tensor<4xf32>
    // expected-error@+1 {{convert-plan-to-launch: a task hands on all results of its op op.relu, in order}}
    plan.yield %a : tensor<4xf32>
  }
}

// -----

// Kernels take memrefs of static shape, so nothing of dynamic shape can reach one.

plan.plan @dynamic {
  %c = regst.chunk on <0, host> size 144
  %m = regst.block in %c at 0 size 128
  %n = regst.block in %c at 128 size 16
  // expected-error@+1 {{convert-plan-to-launch: register 'x' holds tensor<?x4xf32>, but kernels have static shapes}}
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !regst.data<tensor<?x4xf32>, max [8, 4]>
  %h = regst.register "x/header" in %n at 0 slots 1 header "x" on <0, host> : !regst.data<tensor<2xi64>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<?x4xf32>, max [8, 4]>) {
    %v = job.input "x" : tensor<?x4xf32>
    plan.yield %v : tensor<?x4xf32>
  }
}
