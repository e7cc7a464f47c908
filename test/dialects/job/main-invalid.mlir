// RUN: penstock-opt %s --allow-unregistered-dialect --verify-diagnostics --split-input-file

%j = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{there should be a list for each job, got 1 for 2}}
%s = job.wait_and_send_ids %j jobs ["a", "b"] lists [array<i64: 0>]

// -----

%j = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{job 'b' has no section}}
%s = job.wait_and_send_ids %j jobs ["a", "b"] lists [array<i64: 0>, array<i64>]

// -----

%j = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{job 'a' is listed twice}}
%s = job.wait_and_send_ids %j jobs ["a", "a"] lists [array<i64: 0>, array<i64: 1>]

// -----

%s = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{there should be a list for each section, got 2 for 1}}
%g = job.reentrant_lock %s, %s sections ["a"] lists [array<i64>, array<i64>]

// -----

%s = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{section 0 lists 2, but there are 2}}
%g = job.reentrant_lock %s, %s sections ["a", "b"] lists [array<i64: 2>, array<i64>]

// -----

%s = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{section 0 lists 1, which does not list it}}
%g = job.reentrant_lock %s, %s sections ["a", "b"] lists [array<i64: 1>, array<i64>]

// -----

%s = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{there should be at least one branch}}
job.case %s []

// -----

// expected-error@+1 {{branch 'a' is listed twice}}
%s = job.esac ["a", "a"]

// -----

%s = "test.op"() : () -> tensor<i64>
// expected-error@+1 {{a buffer needs a name, got an empty one}}
job.callback_notify "", %s

// -----

!c = !regst.control
!n = !regst.data<tensor<i64>>

plan.plan @few {
  %g = regst.register "g" slots 1 on <0, host> : !n
  %a = regst.register "a" slots 1 on <0, host> : !c
  plan.task "maker" on <0, cpu:0> stream <main, 1> ins() outs(%g : !n) {
    %0 = "test.op"() : () -> (tensor<i64>)
    plan.yield %0 : tensor<i64>
  }
  // expected-error@+1 {{job.case needs a control register for each of a, b, got 1}}
  plan.task "case" on <0, cpu:0> stream <main, 0> ins(%g : !n) signals(%a : !c) {
  ^bb0(%0: tensor<i64>):
    job.case %0 ["a", "b"]
    plan.yield
  }
}

// -----

!c = !regst.control
!n = !regst.data<tensor<i64>>

plan.plan @many {
  %d = regst.register "d" slots 1 on <0, host> : !n
  %a = regst.register "a" slots 1 on <0, host> : !c
  %b = regst.register "b" slots 1 on <0, host> : !c
  plan.task "maker" on <0, cpu:0> stream <main, 1> ins() signals(%a, %b : !c, !c) {
    "test.op"() : () -> ()
    plan.yield
  }
  // expected-error@+1 {{job.esac needs a control register for each of a, got 2}}
  plan.task "esac" on <0, cpu:0> stream <main, 0> ins() outs(%d : !n) waits(%a, %b : !c, !c) {
    %0 = job.esac ["a"]
    plan.yield %0 : tensor<i64>
  }
}

// -----

!n = !regst.data<tensor<i64>>

plan.plan @crossed {
  %s = regst.register "s" slots 1 on <0, host> : !n
  %d = regst.register "d" slots 1 on <0, host> : !n
  %g = regst.register "g" slots 1 on <0, host> : !n
  plan.task "maker" on <0, cpu:0> stream <main, 1> ins() outs(%s, %d : !n, !n) {
    %0, %1 = "test.op"() : () -> (tensor<i64>, tensor<i64>)
    plan.yield %0, %1 : tensor<i64>, tensor<i64>
  }
  // expected-error@+1 {{the task of job.reentrant_lock reads what that does, in order}}
  plan.task "lock" on <0, cpu:0> stream <main, 0> ins(%s, %d : !n, !n) outs(%g : !n) {
  ^bb0(%0: tensor<i64>, %1: tensor<i64>):
    %2 = job.reentrant_lock %1, %0 sections ["a"] lists [array<i64>]
    plan.yield %2 : tensor<i64>
  }
}

// -----

!n = !regst.data<tensor<i64>>
!c = !regst.control

plan.plan @waits {
  %s = regst.register "s" slots 1 on <0, host> : !n
  %d = regst.register "d" slots 1 on <0, host> : !n
  %g = regst.register "g" slots 1 on <0, host> : !n
  %k = regst.register "k" slots 1 on <0, host> : !c
  plan.task "maker" on <0, cpu:0> stream <main, 1> ins() outs(%s, %d : !n, !n) signals(%k : !c) {
    %0, %1 = "test.op"() : () -> (tensor<i64>, tensor<i64>)
    plan.yield %0, %1 : tensor<i64>, tensor<i64>
  }
  // expected-error@+1 {{the task of job.reentrant_lock waits for, or signals, more than its branches}}
  plan.task "lock" on <0, cpu:0> stream <main, 0> ins(%s, %d : !n, !n) outs(%g : !n) waits(%k : !c) {
  ^bb0(%0: tensor<i64>, %1: tensor<i64>):
    %2 = job.reentrant_lock %0, %1 sections ["a"] lists [array<i64>]
    plan.yield %2 : tensor<i64>
  }
}
