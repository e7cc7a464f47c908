// RUN: penstock-opt %s -p job-place,convert-job-to-plan | filecheck %s
// RUN: penstock-opt %s -p 'job-place,job-infer-sbp,convert-job-to-plan,plan-order-tasks{in_place=true},plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,plan-reduce-events,verify-plan' | filecheck %s --check-prefix=PLAN
// RUN: penstock-opt %s -p 'job-place,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-plan-memory' -t memory-report | filecheck %s --check-prefix=REPORT
// RUN: not penstock-opt %s --pipeline cpu 2>&1 | filecheck %s --check-prefix=LAUNCH

// How large values of dynamic shape may be follows from the inputs. A plan of them can be
// laid out and reported, but has no kernels.

// LAUNCH: convert-plan-to-launch: register 'x/out' holds tensor<?x4xf32>, but kernels have static shapes

// The maximum of a product is that of its rows; both sides of a concatenation add up, and
// a slice ends where its operand does. What is known is not said, and a copy is as large
// as what it copies.

// CHECK-LABEL: plan.plan @rows
// CHECK:         plan.task "x" {{.*}} -> tensor<?x4xf32> attributes {max_shape = array<i64: 8, 4>} {
// CHECK-NEXT:      job.input "x" : tensor<?x4xf32>
// CHECK:         plan.task "x_cuda" {{.*}} attributes {max_shape = array<i64: 8, 4>}
// CHECK:         plan.task "w" {{.*}} -> tensor<4x6xf32> {
// CHECK:         plan.task "h" {{.*}} attributes {max_shape = array<i64: 8, 6>}
// CHECK:         plan.task "c" {{.*}} attributes {max_shape = array<i64: 16, 6>}
// CHECK:         plan.task "s" {{.*}} attributes {max_shape = array<i64: 14, 6>}
// CHECK:         plan.task "t" {{.*}} -> tensor<6xf32> {

// Registers, headers and the order count with the maximum: the fullest step has both
// operands and the result of the concatenation, 8 x 6, 8 x 6 and 16 x 6 floats, besides
// the 8 x 4 in two slots of the input's copy before they are free.

// PLAN-LABEL: plan.plan @rows
// PLAN-SAME:    live_bytes =
// PLAN:         %[[X:.+]] = regst.register "x_cuda/out" {{.*}} slots 2 on <0, device cuda:0> {{.*}}!regst.data<tensor<?x4xf32>, max [8, 4]>
// PLAN-NEXT:    regst.register "x_cuda/out/header" {{.*}} slots 2 header "x_cuda/out" on <0, pinned cuda:0>
// PLAN:         regst.register "r/out" {{.*}}no_alias = "dynamic:
// PLAN:         regst.register "s/out" {{.*}} max [14, 6]>

// REPORT: plan @rows
// REPORT: c/out {{.*}} 384
job.job @rows placement <cuda, [0:0]> {
  %x = job.input "x" {max_shape = array<i64: 8, 4>} : tensor<?x4xf32>
  %w = job.variable "w" init <zeros> : tensor<4x6xf32>
  %h = op.matmul %x, %w : tensor<?x4xf32>, tensor<4x6xf32> -> tensor<?x6xf32>
  %r = op.relu %h : tensor<?x6xf32> -> tensor<?x6xf32>
  %c = op.concat %r, %h axis 0 : tensor<?x6xf32>, tensor<?x6xf32> -> tensor<?x6xf32>
  %s = op.slice %c from [2, 0] to [100, 6] by [1, 1] : tensor<?x6xf32> -> tensor<?x6xf32>
  %t = op.reduce_sum %s axes [0] : tensor<?x6xf32> -> tensor<6xf32>
  job.output "y", %s : tensor<?x6xf32>
  job.output "t", %t : tensor<6xf32>
}

// Each dynamic result of an op has a maximum of its own; a static one has none.

// CHECK-LABEL: plan.plan @split
// CHECK:         plan.task "a" {{.*}} attributes {max_shape = [array<i64: 2, 5>, array<i64: 1, 5>]}
job.job @split placement <cpu, [0:0]> {
  %x = job.input "p" {max_shape = array<i64: 3, 5>} : tensor<3x?xf32>
  %a, %b = op.split %x axis 0 sizes [2, 1] : tensor<3x?xf32> -> tensor<2x?xf32>, tensor<1x?xf32>
  job.output "a", %a : tensor<2x?xf32>
  job.output "b", %b : tensor<1x?xf32>
}

// What waits for others is as large as it was, and its readers wait.

// CHECK-LABEL: plan.plan @after
// CHECK-NEXT:    regst.register "z -> r"
// CHECK:         plan.task "r" {{.*}} waits({{.*}} attributes {max_shape = array<i64: 7>}
job.job @after placement <cpu, [0:0]> {
  %x = job.input "q" {max_shape = array<i64: 7>} : tensor<?xf32>
  %z = job.foreign_input "z" {max_shape = array<i64: 9>} : tensor<?xi1>
  %y = job.after %x, %z : tensor<?xf32>, tensor<?xi1>
  %r = op.relu %y : tensor<?xf32> -> tensor<?xf32>
  job.output "r", %r : tensor<?xf32>
}

// An op whose body is ops says what they say.

// CHECK-LABEL: plan.plan @fused
// CHECK:         plan.task "f" {{.*}} attributes {max_shape = array<i64: 7>}
job.job @fused placement <cpu, [0:0]> {
  %x = job.input "s" {max_shape = array<i64: 7>} : tensor<?xf32>
  %f = op.fused %x : tensor<?xf32> -> tensor<?xf32> {
  ^bb0(%v: tensor<?xf32>):
    %r = op.relu %v : tensor<?xf32> -> tensor<?xf32>
    op.yield %r : tensor<?xf32>
  }
  job.output "f", %f : tensor<?xf32>
}
