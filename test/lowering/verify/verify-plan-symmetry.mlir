// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file

// Registers have somebody who writes them, and control somebody who waits for it.

plan.plan @lonely {
  // expected-error@+1 {{verify-plan: no task writes register 'x'}}
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{verify-plan: no task waits for control register 'k'}}
  %k = regst.register "k" slots 1 on <0, host> : !regst.control
  // A result that nobody reads is fine.
  %r = regst.register "r" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%r : !regst.data<tensor<4xf32>>) signals(%k : !regst.control) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// Both sides of a copy lie where it says.

!r = !regst.data<tensor<4xf32>>

plan.plan @copies {
  %h = regst.register "h" slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, device cuda:0> : !r
  %wrong = regst.register "wrong" slots 1 on <0, host> : !r
  %other = regst.register "other" slots 1 on <0, device cuda:1> : !r
  %back = regst.register "back" slots 1 on <1, host> : !r
  %near = regst.register "near" slots 1 on <0, pinned cuda:0> : !r
  %far = regst.register "far" slots 1 on <1, host> : !r
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins() outs(%h : !r) {
    %v = "test.op"() : () -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "d" on <0, cuda:0> stream <copy_h2d, 0> ins(%h : !r) outs(%d : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cuda:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{verify-plan: task 'wrong' copies to #job.device<0, cuda:0>, but register 'wrong' lies in #regst.memory_case<0, host>}}
  plan.task "wrong" on <0, cuda:0> stream <copy_h2d, 0> ins(%h : !r) outs(%wrong : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cuda:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{verify-plan: task 'other' of #job.device<0, cuda:0> copies to #job.device<0, cuda:1>}}
  plan.task "other" on <0, cuda:0> stream <copy_h2d, 0> ins(%h : !r) outs(%other : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cuda:1> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+2 {{verify-plan: task 'back' copies to #job.device<0, cpu:0>, but register 'back' lies in #regst.memory_case<1, host>}}
  // expected-error@+1 {{verify-plan: task 'back' copies from #job.device<0, cuda:0>, but register 'other' lies in #regst.memory_case<0, device cuda:1>}}
  plan.task "back" on <0, cuda:0> stream <copy_d2h, 0> ins(%other : !r) outs(%back : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cpu:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "near" on <0, cuda:0> stream <copy_d2h, 0> ins(%d : !r) outs(%near : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cpu:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{verify-plan: task 'far' copies from #job.device<1, cpu:0>, but register 'd' lies in #regst.memory_case<0, device cuda:0>}}
  plan.task "far" on <1, cpu:0> stream <compute, 0> ins(%d : !r) outs(%far : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <1, cpu:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// The parts of a variable fill a box, with as many copies as there may be.

!r = !regst.data<tensor<2x4xf32>>
!t = tensor<2x4xf32>

plan.plan @variables {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, host> : !r
  %e = regst.register "e" slots 1 on <0, host> : !r
  %f = regst.register "f" slots 1 on <0, host> : !r
  %g = regst.register "g" slots 1 on <0, host> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  %i = regst.register "i" slots 1 on <0, host> : !r
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = job.variable "fine" init <zeros> part [0, 0] of [4, 4] : !t
    plan.yield %v : !t
  }
  plan.task "b" on <0, cpu:1> stream <compute, 0> ins() outs(%b : !r) {
    %v = job.variable "fine" init <zeros> part [2, 0] of [4, 4] : !t
    plan.yield %v : !t
  }
  plan.task "c" on <0, cpu:2> stream <compute, 0> ins() outs(%c : !r) {
    %v = job.variable "fine" init <zeros> part [2, 0] of [4, 4] : !t
    plan.yield %v : !t
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins() outs(%d : !r) {
    %v = job.variable "hole" init <zeros> part [0, 0] of [6, 4] : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: parts of variable 'hole' lack 8 elements}}
  plan.task "e" on <0, cpu:1> stream <compute, 0> ins() outs(%e : !r) {
    %v = job.variable "hole" init <zeros> part [4, 0] of [6, 4] : !t
    plan.yield %v : !t
  }
  plan.task "f" on <0, cpu:0> stream <compute, 0> ins() outs(%f : !r) {
    %v = job.variable "common" init <zeros> part [0, 0] of [4, 4] : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: parts 'f' and 'g' of variable 'common' have elements in common, but are not the same}}
  plan.task "g" on <0, cpu:1> stream <compute, 0> ins() outs(%g : !r) {
    %v = job.variable "common" init <zeros> part [1, 0] of [4, 4] : !t
    plan.yield %v : !t
  }
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins() outs(%h : !r) {
    %v = job.variable "wholes" init <zeros> part [0, 0] of [4, 4] : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: parts of variable 'wholes' are of wholes [4, 4] and [5, 4]}}
  plan.task "i" on <0, cpu:1> stream <compute, 0> ins() outs(%i : !r) {
    %v = job.variable "wholes" init <zeros> part [2, 0] of [5, 4] : !t
    plan.yield %v : !t
  }
}

// -----

// The parts of an op do the same; what a boxing is made of may be of several kinds.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @parts {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <0, host> : !r
  plan.task "a@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: parts of 'a' execute test.op and op.relu}}
  plan.task "a@0.cpu.1" on <0, cpu:1> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "c@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%c : !r) {
  ^bb0(%0: !t):
    %v = op.add %0, %0 : !t, !t -> !t
    plan.yield %v : !t
  }
  plan.task "c@0.cpu.1" on <0, cpu:1> stream <compute, 0> ins(%a : !r) outs(%d : !r) {
  ^bb0(%0: !t):
    %v = op.slice %0 from [0] to [4] by [1] : !t -> !t
    plan.yield %v : !t
  }
}

// -----

// The tasks of a collective say the same of it, run where it takes place, and leave equal
// shapes on all devices.

!r = !regst.data<tensor<4xf32>>
!h = !regst.data<tensor<2xf32>>
!t = tensor<4xf32>
#g = #job.placement<cpu, [0:0, 1:0]>
#h = #job.placement<cpu, [1:0, 2:0]>

plan.plan @collectives {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %a1 = regst.register "a1" slots 1 on <1, host> : !h
  %b = regst.register "b" slots 1 on <0, host> : !r
  %c = regst.register "c" slots 1 on <0, host> : !r
  %d = regst.register "d" slots 1 on <2, host> : !r
  %e = regst.register "e" slots 1 on <0, host> : !r
  plan.task "a@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) attributes {collective = "all_reduce", group = #g} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: parts of collective 'a' are tensor<4xf32> and tensor<2xf32>}}
  plan.task "a@1.cpu.0" on <1, cpu:0> stream <compute, 0> ins() outs(%a1 : !h) attributes {collective = "all_reduce", group = #g} {
    %v = "test.op"() : () -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  // expected-error@+1 {{verify-plan: collective 'b' has no part for #job.device<1, cpu:0>}}
  plan.task "b@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() outs(%b : !r) attributes {collective = "all_gather", group = #g} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "c.add@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() outs(%c : !r) attributes {collective = "reduce", group = #g} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+2 {{verify-plan: task 'c' takes part in a collective of #job.placement<cpu, [0:0, 1:0]>, but runs on #job.device<2, cpu:0>}}
  // expected-error@+1 {{verify-plan: parts of collective 'c' say reduce and gather}}
  plan.task "c" on <2, cpu:0> stream <compute, 0> ins() outs(%d : !r) attributes {collective = "gather", group = #g} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: task 'e' should say the name of a collective and the group that takes part, got "gather" and None}}
  plan.task "e" on <0, cpu:0> stream <compute, 0> ins() outs(%e : !r) attributes {collective = "gather"} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @groups {
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <1, host> : !r
  plan.task "a@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() outs(%a : !r) attributes {collective = "scatter", group = #job.placement<cpu, [0:0, 1:0]>} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: groups #job.placement<cpu, [0:0, 1:0]> and #job.placement<cpu, [1:0, 2:0]> of collective 'a' have devices in common}}
  plan.task "a@1.cpu.0" on <1, cpu:0> stream <compute, 0> ins() outs(%b : !r) attributes {collective = "scatter", group = #job.placement<cpu, [1:0, 2:0]>} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

// One rank needs collective 'a' for 'b', the other 'b' for 'a': each could copy what it
// needs, but a library that does 'a' and 'b' in some order waits forever.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>
#g = #job.placement<cpu, [0:0, 1:0]>

plan.plan @crossed {
  %a0 = regst.register "a0" slots 1 on <0, host> : !r
  %b0 = regst.register "b0" slots 1 on <0, host> : !r
  %a1 = regst.register "a1" slots 1 on <1, host> : !r
  %b1 = regst.register "b1" slots 1 on <1, host> : !r
  // expected-error@+1 {{verify-plan: collectives 'a' and 'b' wait for each other: no order of them is the same on all devices}}
  plan.task "a@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins() outs(%a0 : !r) attributes {collective = "broadcast", group = #g} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "b@0.cpu.0" on <0, cpu:0> stream <compute, 0> ins(%a0 : !r) outs(%b0 : !r) attributes {collective = "broadcast", group = #g} {
  ^bb0(%0: !t):
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "b@1.cpu.0" on <1, cpu:0> stream <compute, 0> ins() outs(%b1 : !r) attributes {collective = "broadcast", group = #g} {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "a@1.cpu.0" on <1, cpu:0> stream <compute, 0> ins(%b1 : !r) outs(%a1 : !r) attributes {collective = "broadcast", group = #g} {
  ^bb0(%0: !t):
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

// A copy in the memory of one device is on both sides in that.

!r = !regst.data<tensor<4xf32>>

plan.plan @within {
  %d = regst.register "d" slots 1 on <0, device cuda:0> : !r
  %e = regst.register "e" slots 1 on <0, device cuda:0> : !r
  %h = regst.register "h" slots 1 on <0, host> : !r
  %f = regst.register "f" slots 1 on <0, device cuda:0> : !r
  plan.task "d" on <0, cuda:0> stream <compute, 0> ins() outs(%d : !r) {
    %0 = job.variable "d" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins() outs(%h : !r) {
    %0 = job.variable "h" init <ones> : tensor<4xf32>
    plan.yield %0 : tensor<4xf32>
  }
  plan.task "within" on <0, cuda:0> stream <compute, 0> ins(%d : !r) outs(%e : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cuda:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // expected-error@+1 {{verify-plan: task 'across' copies from #job.device<0, cuda:0>, but register 'h' lies in #regst.memory_case<0, host>}}
  plan.task "across" on <0, cuda:0> stream <compute, 0> ins(%h : !r) outs(%f : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = job.copy %0 to <0, cuda:0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
