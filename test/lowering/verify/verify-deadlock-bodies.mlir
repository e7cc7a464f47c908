// RUN: penstock-opt %s -p verify-deadlock --verify-diagnostics --split-input-file | filecheck %s

// Inside a body: two tasks that wait for each other never act, whatever is around them.

!k = !regst.control
!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

plan.plan @inside {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %y = regst.register "y/out" slots 1 on <0, host> : !r
  %memory = regst.register "y/memory" slots 1 on <0, host> : !regst.data<tensor<0xi8>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y, %memory : !r, !regst.data<tensor<0xi8>>) {
  ^bb0(%a: !t):
    %v = op.loop 3 carries(%a : !t) -> !t {
    ^bb0(%i: tensor<i64>, %z: !t):
      %n = op.relu %z : !t -> !t
      op.yield %n : !t
    }
    plan.yield %v : !t
  } with {
    plan.plan @inside {
      %z = regst.register "z/out" slots 1 interface "in_1" on <0, host> : !r
      %n = regst.register "n/out" slots 1 interface "out_0" on <0, host> : !r
      %back = regst.register "n -> z" slots 1 on <0, host> : !k
      // expected-error@+1 {{verify-deadlock: cycle z -> n -> z has no full slot at the start, and no slots break it}}
      plan.task "z" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) waits(%back : !k) {
        %v = job.input "in_1" : !t
        plan.yield %v : !t
      }
      plan.task "n" on <0, cpu:0> stream <compute, 0> ins(%z : !r) outs(%n : !r) signals(%back : !k) {
      ^bb0(%a: !t):
        %v = op.relu %a : !t -> !t
        plan.yield %v : !t
      }
      plan.task "out_0" on <0, cpu:0> stream <compute, 0> ins(%n : !r) {
      ^bb0(%a: !t):
        job.output "out_0", %a : !t
        plan.yield
      }
    }
  }
}

// -----

// Around it: "y" cannot act until "a" has taken what it wrote before the start, and "a"
// follows the loop by way of "b".

!k = !regst.control
!t = tensor<4xf32>
!r = !regst.data<tensor<4xf32>>

plan.plan @around {
  %x = regst.register "x/out" slots 1 on <0, host> : !r
  %y = regst.register "y/out" slots 1 on <0, host> : !r
  %b = regst.register "b/out" slots 1 on <0, host> : !r
  %turn = regst.register "turn" slots 1 initial 1 on <0, host> : !k
  // expected-error@+1 {{verify-deadlock: cycle a -> y -> b -> a has no free slot; one more slot for register 'turn' breaks it}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%b : !r) waits(%turn : !k) {
  ^bb0(%a: !t):
    job.output "a", %a : !t
    plan.yield
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) signals(%turn : !k) {
  ^bb0(%a: !t):
    %v = op.loop 3 carries(%a : !t) -> !t {
    ^bb0(%i: tensor<i64>, %z: !t):
      %n = op.relu %z : !t -> !t
      op.yield %n : !t
    }
    plan.yield %v : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%b : !r) {
  ^bb0(%a: !t):
    %v = op.relu %a : !t -> !t
    plan.yield %v : !t
  }
}

// -----

// A loop with a body whose tasks act one after the other, over and over.

!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @chain
plan.plan @chain {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> !t {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  %y = plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !t) -> !t {
  ^bb0(%a: !t):
    %v = op.loop 3 carries(%a : !t) -> !t {
    ^bb0(%i: tensor<i64>, %z: !t):
      %n = op.relu %z : !t -> !t
      op.yield %n : !t
    }
    plan.yield %v : !t
  } with {
    plan.plan @chain {
      %z = plan.task "z" on <0, cpu:0> stream <compute, 0> ins() -> !t {
        %v = job.input "in_1" : !t
        plan.yield %v : !t
      }
      %n = plan.task "n" on <0, cpu:0> stream <compute, 0> ins(%z : !t) -> !t {
      ^bb0(%a: !t):
        %v = op.relu %a : !t -> !t
        plan.yield %v : !t
      }
      plan.task "out_0" on <0, cpu:0> stream <compute, 0> ins(%n : !t) {
      ^bb0(%a: !t):
        job.output "out_0", %a : !t
        plan.yield
      }
    }
  }
}
