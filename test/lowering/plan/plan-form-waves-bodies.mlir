// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-tasks,plan-form-waves | filecheck %s

!t = tensor<4xf32>

// A value that a condition reads beside members of a wave: their bytes are counted up to
// the task of the condition, which is no member itself. 5 x 16 bytes and the flag are in memory at once.

// CHECK:      plan.plan @beside {{.*}}waves = {apart = 49 : i64, live_bytes = 65 : i64, tasks = 2 : i64}
// CHECK:      %[[A:.+]], %[[B:.+]] = plan.task "a..b"
// CHECK:      op.wave
// CHECK:      plan.task "c" {{.*}} ins(%{{.+}}, %[[A]], %[[B]]{{.*}}no_wave = "op: op.if is no member of waves"
// CHECK:      op.if
job.job @beside placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %go = job.input "go" : tensor<i1>
  %a = op.exp %x : !t -> !t
  %b = op.tanh %y : !t -> !t
  %c = op.if %go reads(%a, %b : !t, !t) -> !t {
  ^bb0(%d: !t, %e: !t):
    %f = op.sub %d, %e : !t, !t -> !t
    op.yield %f : !t
  } else {
  ^bb0(%d: !t, %e: !t):
    op.yield %e : !t
  }
  job.output "c", %c : !t
}
