// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file

// Between two loops there are as many pieces as both can count, or fewer.
// expected-error@+1 {{: control register 'x -> d' should have a number of pieces in a launch that divides 2, got 3 : i64}}
plan.plan @p {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %s = regst.register "s" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %c = regst.register "x -> d" slots 1 on <0, host> {pieces = 3} : !regst.control
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) signals(%c : !regst.control) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%s : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.acc %v every 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) waits(%c : !regst.control) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}

// -----

// A sum lies on its own term. What has several slots in each of another one is made of
// that once for each.
plan.plan @q {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{verify-plan: registers 'x' and 's' share 16 bytes, but have other slots or pieces}}
  %s = regst.register "s" alias %x : !regst.data<tensor<4xf32>> slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %t = regst.register "t" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{verify-plan: registers 't' and 'u' share 16 bytes, but have other slots or pieces}}
  %u = regst.register "u" alias %t : !regst.data<tensor<4xf32>> slots 2 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{: task 's' writes 's' over 'x', but op.acc cannot work in place}}
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<4xf32>>) outs(%s : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.acc %v every 2 : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  plan.task "t" on <0, cpu:0> stream <compute, 0> ins(%s : !regst.data<tensor<4xf32>>) outs(%t : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.relu %v : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
  // expected-error@+1 {{: task 'u' writes 'u' over 't', several slots on each of its own, but does not show it so often}}
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins(%t : !regst.data<tensor<4xf32>>) outs(%u : !regst.data<tensor<4xf32>>) {
  ^bb0(%v: tensor<4xf32>):
    %r = op.relu %v : tensor<4xf32> -> tensor<4xf32>
    plan.yield %r : tensor<4xf32>
  }
}

// -----

// Nor has a view of half of a register two slots in each of that one's: a slice takes a
// piece for each one it makes, and no rate says otherwise.
plan.plan @half {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<32xf32>>
  %y = regst.register "y" alias %x : !regst.data<tensor<32xf32>> slots 2 on <0, host> : !regst.data<tensor<16xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<32xf32>>) {
    %v = job.input "x" : tensor<32xf32>
    plan.yield %v : tensor<32xf32>
  }
  // expected-error@+1 {{: task 'y' writes 'y' over 'x', several slots on each of its own, but does not show it so often}}
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !regst.data<tensor<32xf32>>) outs(%y : !regst.data<tensor<16xf32>>) {
  ^bb0(%v: tensor<32xf32>):
    %r = op.slice %v from [0] to [16] by [1] : tensor<32xf32> -> tensor<16xf32>
    plan.yield %r : tensor<16xf32>
  }
  plan.task "out" on <0, cpu:0> stream <compute, 0> ins(%y : !regst.data<tensor<16xf32>>) {
  ^bb0(%v: tensor<16xf32>):
    job.output "y", %v : tensor<16xf32>
    plan.yield
  }
}
