// A policy says which layout a boxing goes through: `two-steps`, `direct`, or that of a plug-in.
// RUN: penstock-opt %s -p convert-job-to-plan | filecheck %s --check-prefixes=CHECK,TWO
// RUN: penstock-opt %s -p 'convert-job-to-plan{boxing=direct}' | filecheck %s --check-prefixes=CHECK,DIRECT
// RUN: not penstock-opt %s -p 'convert-job-to-plan{boxing=dirrect}' 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not penstock-opt %s -p 'job-infer-sbp{candidates=al}' 2>&1 | filecheck %s --check-prefix=CANDIDATES
// RUN: not penstock-opt %s -p 'job-infer-sbp{cost=byts}' 2>&1 | filecheck %s --check-prefix=COST

// UNKNOWN: convert-job-to-plan: no boxing 'dirrect', did you mean 'direct'? (penstock-opt --list boxing names them)
// CANDIDATES: job-infer-sbp: no SBP candidates 'al', did you mean 'all'? (penstock-opt --list sbp-candidates names them)
// COST: job-infer-sbp: no SBP cost 'byts', did you mean 'bytes'? (penstock-opt --list sbp-cost names them)

// Three devices add terms of a sum that all of them need: each adds a part for all, or all
// parts for itself.
// CHECK-LABEL: plan.plan @sum
job.job @sum placement <cuda, [0:0-2]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<9x6xf32>
  %p = op.reduce_sum %w axes [0] {sbp = #job.sbp<P>} : tensor<9x6xf32> -> tensor<6xf32>
  // TWO: plan.task "b.sum@0.cuda.0"
  // DIRECT-NOT: plan.task "b.sum@
  %b = job.boxing %p from <P> on <cuda, [0:0-2]> to <B> on <cuda, [0:0-2]> : tensor<6xf32>
  // CHECK: plan.task "b@0.cuda.2"
  %r = op.relu %b {sbp = #job.sbp<B>} : tensor<6xf32> -> tensor<6xf32>
}
