// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-updates,plan-order-commits --split-input-file | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-updates,plan-order-commits,plan-order-commits --split-input-file | filecheck %s

// Assignments that do not come after all tasks that can fail wait for a commit, which waits
// for those of them that no other one comes after: not for `g`, as `h` reads it. A commit
// is one act behind them, so that the next piece may begin.

// CHECK-LABEL: plan.plan @join
// CHECK:       %[[H:.+]] = regst.register "h -> commit" slots 2 on <0, host> : !regst.control
// CHECK-NEXT:  %[[K:.+]] = regst.register "k -> commit" slots 2 on <0, host> : !regst.control
// CHECK-NEXT:  %[[A:.+]] = regst.register "commit -> assign" slots 1 on <0, host> : !regst.control
// CHECK-NEXT:  %[[B:.+]] = regst.register "commit -> assign_1" slots 1 on <0, host> : !regst.control
// CHECK-NOT:   regst.register
// CHECK:       plan.task "g" {{.*}} can_fail ins({{.*}}i64>) -> tensor<4xf32>
// CHECK:       plan.task "h" {{.*}} can_fail ins({{.*}}) signals(%[[H]] : !regst.control)
// CHECK:       plan.task "k" {{.*}} can_fail ins({{.*}}) signals(%[[K]] : !regst.control)
// CHECK:       plan.task "commit" on <0, cpu:0> stream <commit, 0> ins() waits(%[[H]], %[[K]] : {{.*}}) signals(%[[A]], %[[B]] : {{.*}}) {
// CHECK-NEXT:    job.commit
// CHECK-NEXT:    plan.yield
// CHECK:       plan.task "assign" {{.*}} waits(%[[A]] : !regst.control)
// CHECK:       plan.task "assign_1" {{.*}} waits(%[[B]] : !regst.control)
job.job @join placement <cpu, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %n = job.input "n" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %g = op.gather %n[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  %h = op.gather %g[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  %k = op.gather %n[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  job.assign %n to %a : tensor<4xf32>
  job.assign %h to %b : tensor<4xf32>
  job.output "y", %k : tensor<4xf32>
}

// -----

// Who comes after all of them anyway, by values or control, does not wait for the commit.

// CHECK-LABEL: plan.plan @behind
// CHECK:       "g -> commit"
// CHECK-NOT:   "commit -> assign"
// CHECK:       "commit -> assign_1"
// CHECK-NOT:   "commit -> assign_2"
job.job @behind placement <cpu, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %c = job.variable "c" init <zeros> : tensor<4xf32>
  %n = job.input "n" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %g = op.gather %c[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  job.assign %g to %a : tensor<4xf32>
  job.assign %n to %b : tensor<4xf32>
  job.assign %n to %c : tensor<4xf32>
}

// -----

// Where all come after them, or nothing can fail, there is no commit.

// CHECK-LABEL: plan.plan @after
// CHECK-NOT:   commit
job.job @after placement <cpu, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %g = op.gather %a[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  %e = op.exp %g : tensor<4xf32> -> tensor<4xf32>
  job.assign %e to %a : tensor<4xf32>
}

// CHECK-LABEL: plan.plan @certain
// CHECK-NOT:   commit
job.job @certain placement <cpu, [0:0]> {
  %a = job.variable "a" init <zeros> : tensor<4xf32>
  %b = job.variable "b" init <zeros> : tensor<4xf32>
  %n = job.input "n" : tensor<4xf32>
  %e = op.exp %n : tensor<4xf32> -> tensor<4xf32>
  job.assign %n to %a : tensor<4xf32>
  job.assign %e to %b : tensor<4xf32>
}

// Nor is there one where nothing is assigned to.

// CHECK-LABEL: plan.plan @reads
// CHECK-NOT:   commit
job.job @reads placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %g = op.gather %n[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  job.output "y", %g : tensor<4xf32>
}

// -----

// What fails on a device is known to the host, so all that assigns waits for the commit.

// CHECK-LABEL: plan.plan @device
// CHECK:       "g -> commit"
// CHECK:       "commit -> assign"
// CHECK:       plan.task "commit" on <0, cpu:0>
job.job @device placement <cuda, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %i = job.variable "i" init <zeros> : tensor<4xi64>
  %g = op.gather %w[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  job.assign %g to %w : tensor<4xf32>
}

// -----

// On several ranks each that assigns has a commit, which is told of others by tokens.

#one = #job.placement<cpu, [1:0]>

// CHECK-LABEL: plan.plan @ranks
// CHECK-DAG:   "g.token.copy@0.cpu.0 -> commit"
// CHECK-DAG:   "commit -> assign"
// CHECK-DAG:   "f -> commit@1"
// CHECK-DAG:   "commit@1 -> assign_1"
// CHECK-DAG:   plan.task "g.token" on <1, cpu:0>
// CHECK-DAG:   plan.task "g.token.copy@0.cpu.0" on <0, cpu:0>
// CHECK-DAG:   plan.task "commit" on <0, cpu:0> stream <commit, 0>
// CHECK-DAG:   plan.task "commit@1" on <1, cpu:0> stream <commit, 0>
job.job @ranks placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %v = job.variable "v" init <ones> {placement = #one} : tensor<4xf32>
  %u = job.variable "u" init <ones> {placement = #one} : tensor<4xf32>
  %i = job.variable "i" init <zeros> {placement = #one} : tensor<4xi64>
  %n = job.input "n" : tensor<4xf32>
  %f = op.gather %u[%i] axis 0 {placement = #one} : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  %g = op.gather %v[%i] axis 0 {placement = #one} : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  job.assign %n to %w : tensor<4xf32>
  job.assign %g to %v : tensor<4xf32>
}

// -----

// It is the same on registers, in a job each; a plan with places is left as it is.

!r = !regst.data<tensor<4xf32>>
!i = !regst.data<tensor<4xi64>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @registers
// CHECK:       "g -> commit" slots 2
// CHECK-NEXT:  "commit -> assign" slots 1
// CHECK-NOT:   "commit -> other"
// CHECK:       plan.task "commit" job "train" on <0, cpu:0> stream <commit, 0>
plan.plan @registers {
  %g = regst.register "g/out" slots 1 on <0, host> : !r
  %i = regst.register "i/out" slots 1 on <0, host> : !i
  %w = regst.register "w/out" slots 1 on <0, host> : !r
  %v = regst.register "v/out" slots 1 on <0, host> : !r
  plan.task "i" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !i) {
    %0 = job.variable "i" init <zeros> : tensor<4xi64>
    plan.yield %0 : tensor<4xi64>
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins() outs(%v : !r) {
    %0 = job.variable "v" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "g" job "train" on <0, cpu:0> stream <compute, 0> can_fail ins(%v, %i : !r, !i) outs(%g : !r) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
  plan.task "assign" job "train" on <0, cpu:0> stream <compute, 0> ins(%v, %w : !r, !r) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
  plan.task "other" job "reset" on <0, cpu:0> stream <compute, 0> ins(%v, %w : !r, !r) {
  ^bb0(%0: !t, %1: !t):
    job.assign %0 to %1 : !t
    plan.yield
  }
}

// CHECK-LABEL: plan.plan @placed
// CHECK-NOT:   commit
plan.plan @placed {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %i = regst.register "i/out" in %m at 0 slots 1 on <0, host> : !i
  %w = regst.register "w/out" in %m at 64 slots 1 on <0, host> : !r
  %g = regst.register "g/out" slots 1 on <0, host> : !r
  plan.task "i" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !i) {
    %0 = job.variable "i" init <zeros> : tensor<4xi64>
    plan.yield %0 : tensor<4xi64>
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %0 = job.variable "w" init <ones> : !t
    plan.yield %0 : !t
  }
  plan.task "g" on <0, cpu:0> stream <compute, 0> can_fail ins(%w, %i : !r, !i) outs(%g : !r) {
  ^bb0(%0: !t, %1: tensor<4xi64>):
    %2 = op.gather %0[%1] axis 0 : !t, tensor<4xi64> -> !t
    plan.yield %2 : !t
  }
  plan.task "assign" on <0, cpu:0> stream <compute, 0> ins(%w : !r) {
  ^bb0(%0: !t):
    job.assign %0 to %0 : !t
    plan.yield
  }
}

// -----

// A state holds what a failed piece has left, and needs no commit.

// CHECK-LABEL: plan.plan @state
// CHECK-NOT:   job.commit
job.job @state placement <cpu, [0:0]> {
  %s = job.state : tensor<4xf32>
  %n = job.input "n" : tensor<4xf32>
  %i = job.input "i" : tensor<4xi64>
  %g = op.gather %n[%i] axis 0 : tensor<4xf32>, tensor<4xi64> -> tensor<4xf32>
  %r = op.add %n, %s : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.assign %r to %s : tensor<4xf32>
  job.output "y", %g : tensor<4xf32>
}
