// Attributes with a dialect's prefix go with an op, into what takes its place.
// RUN: penstock-opt %s --pipeline cpu | filecheck %s

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
