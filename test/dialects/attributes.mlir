// RUN: penstock-opt %s | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s

// What has a dialect's prefix may be anything.

// CHECK-LABEL: job.job @a
// CHECK-SAME:  acme.note = "first"
job.job @a placement <cpu, [0:0]> attributes {acme.note = "first"} {
  // CHECK: job.input "x" {acme.note = 1 : i64, slots = 2 : i64}
  %x = job.input "x" {acme.note = 1 : i64, slots = 2 : i64} : tensor<4xf32>
  // CHECK: op.relu %x {other.one}
  %y = op.relu %x {other.one} : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
