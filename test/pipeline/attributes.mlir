// Attributes with a dialect's prefix go with an op, into what takes its place.
// RUN: penstock-opt %s --pipeline cpu --split-input-file | filecheck %s
// RUN: penstock-opt %s -p op-use-winograd --split-input-file | filecheck %s --check-prefix=WINOGRAD
// RUN: penstock-opt %s --pipeline jobs --split-input-file | filecheck %s --check-prefix=JOBS

// CHECK:     launch.program @a {{.*}}acme.job = 1
// CHECK-DAG: launch.variable @w {{.*}}acme.variable = 1
// CHECK-DAG: launch.feed "x" {{.*}}acme.input = 1
// CHECK-DAG: launch.call {{.*}}acme.product = 1
// CHECK-DAG: launch.fetch "y" {{.*}}acme.output = 1
job.job @a placement <cpu, [0:0]> attributes {acme.job = 1 : i64} {
  %x = job.input "x" {acme.input = 1 : i64} : tensor<4x4xf32>
  %w = job.variable "w" init <zeros> {acme.variable = 1 : i64} : tensor<4x4xf32>
  %y = op.matmul %x, %w {acme.product = 1 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  job.output "y", %y {acme.output = 1 : i64} : tensor<4x4xf32>
}

// -----

!t = tensor<4x4xf32>

// A whole has first those of the op that makes its result. An op that a value of another one stands
// for hands them to that, and what it has itself stays. A view that does nothing keeps them.

// CHECK-LABEL: launch.program @fused
// CHECK:         launch.actor @z {{.*}} attributes {acme.view = 1 : i64} {
// CHECK-NEXT:    }
// CHECK:         launch.actor @f
// CHECK-NEXT:      launch.call {{.*}} {acme.note = "tanh", acme.same = 1 : i64}
// CHECK:         launch.actor @r
// CHECK-NEXT:      launch.call {{.*}} {acme.note = "softmax"}
job.job @fused placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> : !t
  %z = op.reshape %x to [16] {acme.view = 1 : i64} : !t -> tensor<16xf32>
  job.output "z", %z : tensor<16xf32>
  %p = op.matmul %x, %w {acme.note = "product"} : !t, !t -> !t
  %e = op.relu %p {acme.note = "relu"} : !t -> !t
  job.output "e", %e : !t
  %g = op.exp %e {acme.note = "exp"} : !t -> !t
  %f = op.tanh %g {acme.note = "tanh"} : !t -> !t
  %s = op.reshape %f to [4, 4] {acme.note = "reshape", acme.same = 1 : i64} : !t -> !t
  job.output "f", %s : !t
  %q = op.sqrt %w {acme.note = "sqrt"} : !t -> !t
  %r = op.softmax %q axis 1 {acme.note = "softmax"} : !t -> !t
  job.output "r", %r : !t
}

// -----

!q = tensor<2x24x8xf32>
!k = tensor<2x32x8xf32>
!s = tensor<2x24x32xf32>

// Attention has no body, in which they could stay: it has those of all of its ops.

// CHECK-LABEL: launch.program @attention
// CHECK:         launch.call @attention_0 {{.*}} {acme.note = "values", acme.scores = 1 : i64}
job.job @attention placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !k
  %p = op.matmul %q, %k transpose_b {acme.note = "scores", acme.scores = 1 : i64} : !q, !k -> !s
  %s = op.softmax %p axis 2 {acme.note = "softmax"} : !s -> !s
  %y = op.matmul %s, %v {acme.note = "values"} : !s, !k -> !q
  job.output "y", %y : !q
}

// -----

// What ends a convolution by tiles stands for it.

// WINOGRAD-LABEL: job.job @tiles
// WINOGRAD:         job.variable "w" init <ones> winograd [16, 16, 3, 3] {acme.weights = 1 : i64}
// WINOGRAD:         %y = op.slice {{.*}} {acme.convolution = 1 : i64}
job.job @tiles placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x16x14x14xf32>
  %w = job.variable "w" init <ones> {acme.weights = 1 : i64} : tensor<16x16x3x3xf32>
  %y = op.conv2d %x, %w pads [1, 1, 1, 1] {acme.convolution = 1 : i64}
    : tensor<1x16x14x14xf32>, tensor<16x16x3x3xf32> -> tensor<1x16x14x14xf32>
  job.output "y", %y : tensor<1x16x14x14xf32>
}

// -----

!t = tensor<4xf32>

// A variable of two jobs has those of both, of which the first job's count. Those of jobs are
// in the attribute "jobs".

// JOBS-LABEL: launch.program @main
// JOBS-SAME:    jobs = {one = {acme.job = 1 : i64{{.*}}}, two = {acme.job = 2 : i64{{.*}}}}
// JOBS:         launch.variable @w {{.*}} {acme.both = 1 : i64, acme.one = 1 : i64, acme.two = 2 : i64}
// JOBS-DAG:     launch.call {{.*}} {acme.add = 1 : i64}
// JOBS-DAG:     launch.call {{.*}} {acme.mul = 1 : i64}
job.job @one placement <cpu, [0:0]> attributes {acme.job = 1 : i64} {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> {acme.both = 1 : i64, acme.one = 1 : i64} : !t
  %y = op.add %x, %w {acme.add = 1 : i64} : !t, !t -> !t
  job.output "y", %y : !t
}
job.job @two placement <cpu, [0:0]> attributes {acme.job = 2 : i64} {
  %x = job.input "x" : !t
  %w = job.variable "w" init <zeros> {acme.both = 2 : i64, acme.two = 2 : i64} : !t
  %y = op.mul %x, %w {acme.mul = 1 : i64} : !t, !t -> !t
  job.output "z", %y : !t
}

// -----

!t = tensor<4x4xf32>

// The part of an op on each device has them, the call of a group those of all members.

// CHECK-LABEL: launch.program @parts
// CHECK-COUNT-2: launch.variable {{.*}} {acme.variable = 1 : i64}
// CHECK-COUNT-2: launch.call {{.*}} {acme.tanh = 1 : i64, acme.add = 1 : i64}
job.job @parts placement <cpu, [0:0, 0:1]> {
  %x = job.input "x" {sbp = #job.sbp<S(0)>} : !t
  %w = job.variable "w" init <zeros> {acme.variable = 1 : i64, sbp = #job.sbp<S(0)>} : !t
  %y = op.add %x, %w {acme.add = 1 : i64, sbp = #job.sbp<S(0)>} : !t, !t -> !t
  %z = op.tanh %y {acme.tanh = 1 : i64, sbp = #job.sbp<S(0)>} : !t -> !t
  job.output "z", %z : !t
}
