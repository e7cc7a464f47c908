// A pipeline that fails leaves a file that fails in the same way, without a flag.
// RUN: not penstock-opt %s -p canonicalize,job-clean,verify-jobs,cse --mlir-pass-pipeline-crash-reproducer=%t.crash.mlir 2> %t.err
// RUN: filecheck %s --check-prefix=NOTE --input-file %t.err
// RUN: filecheck %s --check-prefix=CRASH --input-file %t.crash.mlir
// RUN: not penstock-opt %t.crash.mlir 2>&1 | filecheck %s --check-prefix=AGAIN

// A local one has only the pass that failed, and the IR before it.
// RUN: not penstock-opt %s -p canonicalize,job-clean,verify-jobs,cse --crash-reproducer=%t.local.mlir --mlir-pass-pipeline-local-reproducer 2> %t.err
// RUN: filecheck %s --check-prefix=LOCAL --input-file %t.local.mlir
// RUN: not penstock-opt %t.local.mlir 2>&1 | filecheck %s --check-prefix=AGAIN

// Where none can be written, the failure is told all the same.
// RUN: not penstock-opt %s -p verify-jobs --crash-reproducer=%t.nowhere/crash.mlir 2>&1 | filecheck %s --check-prefix=NOWHERE

// One can be asked for where nothing fails.
// RUN: penstock-opt %s -p canonicalize,cse --mlir-generate-reproducer=%t.good.mlir -o %t.out
// RUN: penstock-opt %t.good.mlir --run-reproducer | diff - %t.out

// Passes of the command line are run instead of those of a reproducer.
// RUN: penstock-opt %t.crash.mlir -p canonicalize | filecheck %s --check-prefix=INSTEAD

// A flag demands that there is one.
// RUN: not penstock-opt %s --run-reproducer 2>&1 | filecheck %s --check-prefix=NONE

job.job @unlike placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %unused = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  %w = job.variable "w" init <zeros> : tensor<4xf32>
  %y = op.add %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
job.job @other placement <cpu, [0:0]> {
  %w = job.variable "w" init <zeros> : tensor<5xf32>
  job.output "z", %w : tensor<5xf32>
}

// NOTE: crash.mlir: note: this reproduces the failure of verify-jobs

// CRASH:      {-#
// CRASH-NEXT:   external_resources: {
// CRASH-NEXT:     mlir_reproducer: {
// CRASH-NEXT:       pipeline: "builtin.module(canonicalize,job-clean,verify-jobs,cse)",
// CRASH-NEXT:       disable_threading: true,
// CRASH-NEXT:       verify_each: true

// AGAIN: error: verify-jobs:

// LOCAL-NOT: op.relu
// LOCAL:     pipeline: "builtin.module(verify-jobs)",

// INSTEAD: job.job @unlike

// NOWHERE: warning: there is no reproducer: cannot write {{.*}}crash.mlir: no such file or directory
// NOWHERE-NEXT: error: verify-jobs:

// NONE: reproducer.mlir:1:1: error: --run-reproducer: the file has no mlir_reproducer
