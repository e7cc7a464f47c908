// RUN: penstock-opt %s -p convert-job-to-plan | filecheck %s

// A loop is one task, with a plan of its body. Its constants are read from outside.

// CHECK-LABEL: plan.plan @scan
// CHECK:       %k = plan.task "k"
// CHECK:       plan.task "h" {{.*}} ins(%h0, %xs, %w, %k : tensor<3x4xf32>, tensor<5x3x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>, tensor<5x3x4xf32> {
// CHECK:         op.loop 5 carries({{.*}} reads(%w_1, %k_1 : tensor<4x4xf32>, tensor<4xf32>)
// CHECK:       } with {
// CHECK-NEXT:    plan.plan @scan {
// CHECK-NOT:       job.input "in_0"
// CHECK:           %g = plan.task "g"
// CHECK-NEXT:        job.input "in_1" : tensor<3x4xf32>
// CHECK:           %x = plan.task "x"
// CHECK-NEXT:        job.input "in_2" : tensor<3x4xf32>
// CHECK:           %m = plan.task "m" {{.*}} ins(%g, %v
// CHECK:           plan.task "out_0" {{.*}} ins(%y
// CHECK:           plan.task "out_1" {{.*}} ins(%s
job.job @scan placement <cpu, [0:0]> {
  %h0 = job.input "h0" : tensor<3x4xf32>
  %xs = job.input "xs" : tensor<5x3x4xf32>
  %w = job.input "w" : tensor<4x4xf32>
  %h, %ys = op.loop 5 carries(%h0 : tensor<3x4xf32>) slices(%xs : tensor<5x3x4xf32>)
      reads(%w : tensor<4x4xf32>) -> tensor<3x4xf32>, tensor<5x3x4xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<3x4xf32>, %x: tensor<3x4xf32>,
       %v: tensor<4x4xf32>):
    %m = op.matmul %g, %v : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
    %s = op.add %m, %x : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
    %k = op.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %y = op.mul %s, %k : tensor<3x4xf32>, tensor<4xf32> -> tensor<3x4xf32>
    op.yield %y, %s : tensor<3x4xf32>, tensor<3x4xf32>
  }
  job.output "h", %h : tensor<3x4xf32>
  job.output "ys", %ys : tensor<5x3x4xf32>
}

// A condition has a plan of each branch.

// CHECK-LABEL: plan.plan @either
// CHECK:       plan.task "y" {{.*}} ins(%c, %x : tensor<i1>, tensor<4xf32>)
// CHECK:       } with {
// CHECK-NEXT:    plan.plan @either {
// CHECK:           op.exp
// CHECK:         plan.plan @either {
// CHECK:           op.tanh
job.job @either placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %c = job.input "c" : tensor<i1>
  %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>):
    %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
    op.yield %e : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    %t = op.tanh %b : tensor<4xf32> -> tensor<4xf32>
    op.yield %t : tensor<4xf32>
  }
  job.output "y", %y : tensor<4xf32>
}

// The arguments of a body are where its op is.

// CHECK-LABEL: plan.plan @device
// CHECK:       plan.task "h" on <0, cuda:0>
// CHECK:       } with {
// CHECK-NEXT:    plan.plan @device {
// CHECK-NEXT:      %g = plan.task "g" on <0, cuda:0> stream <compute, 0>
job.job @device placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %c = job.copy %x to <0, cuda:0> : tensor<4xf32>
  %h = op.loop 3 carries(%c : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<4xf32>):
    %t = op.tanh %g : tensor<4xf32> -> tensor<4xf32>
    op.yield %t : tensor<4xf32>
  }
}

// Slices of a loop on a GPU, and what it stacks, start at any element.

// CHECK-LABEL: plan.plan @slices
// CHECK:       op.loop 5 carries({{.*}} slices({{.*}} : tensor<5x3xf32>)
// CHECK:       } with {
// CHECK:         plan.task "t" on <0, cuda:0>
job.job @slices placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<3xf32>
  %xs = job.input "xs" : tensor<5x3xf32>
  %c = job.copy %x to <0, cuda:0> : tensor<3xf32>
  %cs = job.copy %xs to <0, cuda:0> : tensor<5x3xf32>
  %h, %ys = op.loop 5 carries(%c : tensor<3xf32>) slices(%cs : tensor<5x3xf32>)
      -> tensor<3xf32>, tensor<5x3xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<3xf32>, %s: tensor<3xf32>):
    %t = op.add %g, %s : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
    op.yield %t, %t : tensor<3xf32>, tensor<3xf32>
  }
}
