// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// Both ends of a message are ops of tasks.

// CHECK-LABEL: plan.plan @sender
plan.plan @sender {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK: job.send %{{.*}} to <1, cpu:0> tag 3 : tensor<4xf32>
  plan.task "x/send" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <1, cpu:0> tag 3 : tensor<4xf32>
    plan.yield
  }
}

// Each says how often it comes, if its own plan does not.

// CHECK-LABEL: plan.plan @often
plan.plan @often {
  // CHECK: %{{.*}} = job.receive from <0, cpu:0> tag 0 times 4 : tensor<4xf32>
  %x = plan.task "x" on <1, cpu:0> stream <network, 0> ins() -> tensor<4xf32> {
    %v = job.receive from <0, cpu:0> tag 0 times 4 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK: job.collective "all_reduce" by "ring" over [1, 0] tag 2 times 4 ins(%{{.*}} : tensor<4xf32>) -> tensor<4xf32>
  %y = plan.task "y" on <1, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %w = job.collective "all_reduce" by "ring" over [1, 0] tag 2 times 4 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
  // CHECK: job.send %{{.*}} to <0, cpu:0> tag 1 times 4 : tensor<4xf32>
  plan.task "y/send" on <1, cpu:0> stream <network, 0> ins(%y : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.send %v to <0, cpu:0> tag 1 times 4 : tensor<4xf32>
    plan.yield
  }
}

// CHECK-LABEL: plan.plan @all
plan.plan @all {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  // CHECK: %{{.*}} = job.collective "all_gather" by "mpi" over [1, 0] tag 2 ins(%{{.*}} : tensor<4xf32>) -> tensor<2x4xf32>
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<2x4xf32> {
  ^bb0(%v: tensor<4xf32>):
    %w = job.collective "all_gather" by "mpi" over [1, 0] tag 2 ins(%v : tensor<4xf32>) -> tensor<2x4xf32>
    plan.yield %w : tensor<2x4xf32>
  }
  // CHECK: job.collective "broadcast" by "ring" over [0, 1] tag 3 ins(%{{.*}} : tensor<4xf32>)
  plan.task "z" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.collective "broadcast" by "ring" over [0, 1] tag 3 ins(%v : tensor<4xf32>)
    plan.yield
  }
  // CHECK: %{{.*}} = job.collective "broadcast" by "ring" over [1, 0] tag 4 ins() -> tensor<f32>
  %u = plan.task "u" on <0, cpu:0> stream <network, 0> ins() -> tensor<f32> {
    %w = job.collective "broadcast" by "ring" over [1, 0] tag 4 ins() -> tensor<f32>
    plan.yield %w : tensor<f32>
  }
}

// CHECK-LABEL: plan.plan @receiver
plan.plan @receiver rank 1 {
  // CHECK: %{{.*}} = job.receive from <0, cpu:0> tag 3 : tensor<4xf32>
  %x = plan.task "x" on <1, cpu:0> stream <network, 0> ins() -> tensor<4xf32> {
    %v = job.receive from <0, cpu:0> tag 3 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "y" on <1, cpu:0> stream <compute, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    job.output "y", %v : tensor<4xf32>
    plan.yield
  }
}
