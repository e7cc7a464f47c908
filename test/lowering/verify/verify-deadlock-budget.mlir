// RUN: penstock-opt %s -p 'verify-deadlock{budget=0}' --verify-diagnostics
// RUN: not penstock-opt %s -p verify-deadlock 2>&1 | filecheck %s

// Any two of three turns wait for each other. A search without a budget does not see that
// two slots are the fewest.

// CHECK: one more slot for register 't0' breaks it
// CHECK: one more slot for register 't1' breaks it
// CHECK-NOT: at least

!k = !regst.control

// expected-error@+1 {{verify-deadlock: 2 more slots break all cycles, at least 1 are needed}}
plan.plan @three_turns {
  %t0 = regst.register "t0" slots 1 initial 1 on <0, host> : !k
  %t1 = regst.register "t1" slots 1 initial 1 on <0, host> : !k
  %t2 = regst.register "t2" slots 1 initial 1 on <0, host> : !k
  %k0 = regst.register "k0" slots 1 on <0, host> : !k
  %k1 = regst.register "k1" slots 1 on <0, host> : !k
  %k2 = regst.register "k2" slots 1 on <0, host> : !k
  // expected-error@+1 {{cycle a0 -> b0 -> a2 -> b2 -> a0 has no free slot; one more slot for register 't0' breaks it}}
  plan.task "a0" on <0, cpu:0> stream <compute, 0> ins() waits(%t0, %k1, %k2 : !k, !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{cycle a1 -> b1 -> a2 -> b2 -> a1 has no free slot; one more slot for register 't1' breaks it}}
  plan.task "a1" on <0, cpu:0> stream <compute, 0> ins() waits(%t1, %k0, %k2 : !k, !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "a2" on <0, cpu:0> stream <compute, 0> ins() waits(%t2, %k0, %k1 : !k, !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b0" on <0, cpu:0> stream <compute, 0> ins() signals(%t0, %k0 : !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b1" on <0, cpu:0> stream <compute, 0> ins() signals(%t1, %k1 : !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
  plan.task "b2" on <0, cpu:0> stream <compute, 0> ins() signals(%t2, %k2 : !k, !k) {
    "test.op"() : () -> ()
    plan.yield
  }
}
