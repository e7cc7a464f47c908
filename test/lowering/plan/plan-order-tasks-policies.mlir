// RUN: penstock-opt %s -p 'convert-job-to-plan,plan-order-tasks{policy="early-updates"}' | filecheck %s --check-prefix=EARLY
// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-tasks | filecheck %s

!small = tensor<4xf32>   // 16 bytes
!thin = tensor<4x1xf32>  // 16 bytes
!wide = tensor<4x16xf32> // 256 bytes

// Updates that come last, each of which frees a gradient and makes nothing, run as soon
// as the gradient is there; all else stays. Listed last, 16 for x + 3 x 256 are alive, or
// 3 x 256 + 16; early, 16 + 256 + 16.

// EARLY-LABEL: plan.plan @updates
// EARLY-SAME:    {live_bytes = {source = 784 : i64, ordered = 288 : i64, lower_limit = 272 : i64}}
// EARLY:         plan.task "x"
// EARLY:         plan.task "g1"
// EARLY:         plan.task "u1"
// EARLY:         plan.task "g2"
// EARLY:         plan.task "u2"
// EARLY:         plan.task "g3"
// EARLY:         plan.task "u3"
job.job @updates placement <cpu, [0:0]> {
  %x = job.input "x" : !thin
  %g1 = op.expand %x to [4, 16] : !thin -> !wide
  %g2 = op.expand %x to [4, 16] : !thin -> !wide
  %g3 = op.expand %x to [4, 16] : !thin -> !wide
  %u1 = op.reduce_sum %g1 axes [1] : !wide -> !small
  %u2 = op.reduce_sum %g2 axes [1] : !wide -> !small
  %u3 = op.reduce_sum %g3 axes [1] : !wide -> !small
}

// They do not run where that would take more than the order took: "u" takes 64 for
// g + 1024 where it stands, which is the most; right after "g" the 256 of "a" would be alive as well.

// EARLY-LABEL: plan.plan @full
// EARLY-SAME:    {live_bytes = {source = 1088 : i64, ordered = 1088 : i64, lower_limit = 1088 : i64}}
// EARLY:         plan.task "g"
// EARLY:         plan.task "m"
// EARLY:         plan.task "u"
job.job @full placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<4x16xf32>
  %v = job.variable "v" init <zeros> : tensor<4x64xf32>
  %x = job.input "x" : tensor<4x4xf32>
  %a = op.matmul %x, %w : tensor<4x4xf32>, tensor<4x16xf32> -> tensor<4x16xf32>
  %g = op.relu %x : tensor<4x4xf32> -> tensor<4x4xf32>
  %m = op.matmul %g, %a : tensor<4x4xf32>, tensor<4x16xf32> -> tensor<4x16xf32>
  %u = op.matmul %g, %v : tensor<4x4xf32>, tensor<4x64xf32> -> tensor<4x64xf32>
}

// Bytes are counted for each memory by itself, and summed up: the 16 of "x" on the host
// and, on the device, two slots of a copy and a result.

// CHECK-LABEL: plan.plan @memories
// CHECK-SAME:    {live_bytes = {source = 64 : i64, ordered = 64 : i64, lower_limit = 64 : i64}}
job.job @memories placement <cuda, [0:0]> {
  %x = job.input "x" : !small
  %up = job.copy %x to <0, cuda:0> : !small
  %r = op.relu %up : !small -> !small
}
