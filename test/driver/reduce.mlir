// A file that fails is shrunk as long as the same message comes.
// RUN: not penstock-opt %s -p canonicalize,op-infer-shapes,verify-jobs,cse --crash-reproducer=%t.crash.mlir
// RUN: penstock-reduce %t.crash.mlir -o %t.small.mlir
// RUN: filecheck %s --input-file %t.small.mlir
// RUN: not penstock-opt %t.small.mlir 2>&1 | filecheck %s --check-prefix=AGAIN

// Passes may be named, and a part of the message.
// RUN: penstock-reduce %s -p cse,verify-jobs --message "'w' is tensor" | filecheck %s

// CHECK:          builtin.module {
// CHECK-NEXT:       job.job
// CHECK-NEXT:         job.variable "w"
// CHECK-NEXT:       }
// CHECK-NEXT:       job.job
// CHECK-NEXT:         job.variable "w"
// CHECK-NEXT:       }
// CHECK-NEXT:     }
// CHECK:          pipeline: "builtin.module(verify-jobs)"

// AGAIN: error: verify-jobs:

job.job @unlike placement <cpu, [0:0]> attributes {acme.note} {
  %x = job.input "x" : tensor<4xf32>
  %r = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %y = op.add %r, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
job.job @other placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<5xf32>
  %r = op.relu %w : tensor<5xf32> -> tensor<5xf32>
  job.output "z", %r : tensor<5xf32>
}
job.job @third placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<5xf32>
  job.output "t", %x : tensor<5xf32>
}
