// RUN: not penstock-opt %s -p 'plan-select-job{job=eval}' 2>&1 | filecheck %s
// RUN: not penstock-opt %S/../convert/convert-plan-to-launch-main.mlir -p 'plan-select-job{job=a}' 2>&1 | filecheck %s --check-prefix=LINKED
// RUN: not penstock-opt %s -p plan-select-job 2>&1 | filecheck %s --check-prefix=NAMELESS

// A job is one that tasks name; the names of plans do not count.

// LINKED: plan-select-job: the jobs of @ok are linked to a main job
// CHECK: plan-select-job: no task belongs to job 'eval'
// NAMELESS: plan-select-job requires argument "job"
plan.plan @eval {
  %x = plan.task "train/x" job "train" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = op.constant dense<1.0> : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}
