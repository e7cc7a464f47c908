// A check that finds nothing to check is an error, and so is a list of passes of which
// none finds an op of its level.
// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file
// RUN: penstock-opt %s -p verify-plan --allow-unused-passes --split-input-file 2> %t.err | filecheck %s --check-prefix=ALLOWED
// RUN: filecheck %s --check-prefix=WARNING --input-file %t.err
// RUN: not penstock-opt %s -p plan-order-tasks,launch-form-chains,canonicalize --split-input-file 2>&1 | filecheck %s --check-prefix=LIST

// A list in which one pass finds its level may leave out what is past it: so dumps are
// resumed. But a check has to find what was there when the list began.
// RUN: penstock-opt %s -p job-clean,verify-jobs --split-input-file | filecheck %s --check-prefix=ALLOWED
// RUN: penstock-opt %s -p job-place,convert-job-to-plan --split-input-file | penstock-opt -p verify-jobs,convert-job-to-plan,plan-order-tasks --split-input-file | filecheck %s --check-prefix=RESUMED
// RUN: not penstock-opt %s -p job-place,convert-job-to-plan,verify-jobs --split-input-file 2>&1 | filecheck %s --check-prefix=GONE
// RUN: not penstock-opt %s -p job-clean,verify-program --split-input-file 2>&1 | filecheck %s --check-prefix=EARLY

// What a standard pipeline names is left alone, and so are passes for any IR.
// RUN: penstock-opt %s --pipeline cpu --split-input-file | penstock-opt --pipeline cpu --split-input-file | filecheck %s --check-prefix=PROGRAM
// RUN: penstock-opt %s -p canonicalize,cse --split-input-file | filecheck %s --check-prefix=ALLOWED

// -----

// expected-error@+1 {{verify-plan finds nothing to check: it wants a plan (plan.plan), got a job (job.job, or ops of op) (--allow-unused-passes allows it)}}
job.job @double placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}

// ALLOWED: job.job @double
// WARNING: unused-passes.mlir:22:1: warning: verify-plan finds nothing to check: it wants a plan (plan.plan), got a job (job.job, or ops of op){{$}}
// WARNING-NOT: warning
// LIST:    unused-passes.mlir:22:1: error: no pass finds an op of its level: plan-order-tasks on a plan (plan.plan); launch-form-chains on a launch program (launch.program); got a job (job.job, or ops of op) (--allow-unused-passes allows it)
// RESUMED: plan.plan @double
// GONE:    error: verify-jobs finds nothing to check: it wants a job (job.job, or ops of op), got a plan (plan.plan)
// EARLY:   error: verify-program finds nothing to check: it wants a launch program (launch.program), got a job (job.job, or ops of op)
// PROGRAM: launch.program @double
