// RUN: penstock-opt %s -p job-add-gradients | filecheck %s

!q = tensor<2x24x8xf32>
!m = tensor<24x24xf32>
!l = tensor<2x24xf32>

// Attention keeps the logarithms of the sums of its rows, of which its gradients are made
// without the matrix of scores.
// CHECK-LABEL: job.job @attention
// CHECK:         %y, %y_lse = op.attention %q, %k, %k causal 0 with_lse {acme.note}
// CHECK:         %[[P:.*]] = op.mul %y, %[[G:.*]] {pass = "backward"}
// CHECK-NEXT:    %[[D:.*]] = op.reduce_sum %[[P]] axes [2] {pass = "backward"}
// CHECK-NEXT:    %[[X:.*]], %[[K:.*]], %[[V:.*]] = op.attention_gradient %q, %k, %k, %[[G]], %y_lse, %[[D]] causal 0 {pass = "backward"}
// CHECK-NEXT:    %[[S:.*]] = op.add %[[K]], %[[V]]
// CHECK-NOT:     tensor<2x24x24xf32>
job.job @attention placement <cpu, [0:0]> {
  %q = job.variable "q" init <ones> : !q
  %k = job.variable "k" init <ones> : !q
  %y = op.attention %q, %k, %k causal 0 {acme.note} : !q, !q, !q -> !q
  %l = op.reduce_sum %y axes [0, 1, 2] : !q -> tensor<f32>
  %g, %h = job.gradients of %l by %q, %k : tensor<f32>, !q, !q
  job.output "g", %g : !q
  job.output "h", %h : !q
}

// The gradient of a mask is of all scores.
// CHECK-LABEL: job.job @mask
// CHECK:         op.attention %q, %q, %q mask %m with_lse
// CHECK-NOT:     op.attention_gradient
// CHECK:         op.exp {{.*}} : tensor<2x24x24xf32>
// CHECK:         op.reduce_sum {{.*}} -> tensor<24x24xf32>
job.job @mask placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %m = job.variable "m" init <ones> : !m
  %y = op.attention %q, %q, %q mask %m : !q, !q, !q mask !m -> !q
  %l = op.reduce_sum %y axes [0, 1, 2] : !q -> tensor<f32>
  %g = job.gradients of %l by %m : tensor<f32>, !m
  job.output "g", %g : !m
}

// A loss that depends on the sums of rows: their gradients are taken off the sums of
// products.
// CHECK-LABEL: job.job @sums
// CHECK:         op.sub %{{.*}}, %{{.*}} {pass = "backward"} : tensor<2x24xf32>, tensor<2x24xf32> -> tensor<2x24xf32>
// CHECK:         op.attention_gradient
job.job @sums placement <cpu, [0:0]> {
  %q = job.variable "q" init <ones> : !q
  %y, %s = op.attention %q, %q, %q with_lse : !q, !q, !q -> !q, !l
  %l = op.reduce_sum %s axes [0, 1] : !l -> tensor<f32>
  %g = job.gradients of %l by %q : tensor<f32>, !q
  job.output "g", %g : !q
}

// The ops of a body that are made once more keep them, too.
// CHECK-LABEL: job.job @body
// CHECK:         op.loop 3 backward
// CHECK:           %{{.*}}, %[[L:.*]] = op.attention {{.*}} with_lse
// CHECK-NOT:       op.attention %
// CHECK:           op.attention_gradient {{.*}}%[[L]],
job.job @body placement <cpu, [0:0]> {
  %q = job.variable "q" init <ones> : !q
  %y = op.loop 3 carries(%q : !q) -> !q {
  ^bb0(%i: tensor<i64>, %s: !q):
    %a = op.attention %s, %s, %s : !q, !q, !q -> !q
    op.yield %a : !q
  }
  %l = op.reduce_sum %y axes [0, 1, 2] : !q -> tensor<f32>
  %g = job.gradients of %l by %q : tensor<f32>, !q
  job.output "g", %g : !q
}
