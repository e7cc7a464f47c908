// RUN: not penstock-opt %s -p 'plan-merge-jobs{strategy=none}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not penstock-opt %s -p 'plan-merge-jobs{strategy=custom}' 2>&1 | filecheck %s --check-prefix=NO-GROUPS
// RUN: not penstock-opt %s -p 'plan-merge-jobs{groups="a,b"}' 2>&1 | filecheck %s --check-prefix=GROUPS
// RUN: not penstock-opt %s -p 'plan-merge-jobs{strategy=custom groups="a,b;a,c"}' 2>&1 | filecheck %s --check-prefix=NO-JOB

// UNKNOWN:   plan-merge-jobs: unknown strategy 'none', expected one of custom, memory, parallelism, writers
// NO-GROUPS: plan-merge-jobs: strategy custom needs groups, and no other takes them, got 'custom' and ""
// GROUPS:    plan-merge-jobs: strategy custom needs groups, and no other takes them, got 'parallelism' and "a,b"
// NO-JOB:    plan-merge-jobs: groups name 'c', which is no job

plan.plan @a {
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}

plan.plan @b {
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins() {
    "test.op"() : () -> ()
    plan.yield
  }
}
