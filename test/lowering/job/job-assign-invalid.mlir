// RUN: penstock-opt %s -p convert-job-to-plan --verify-diagnostics --split-input-file

// What is assigned lies as the variable does.

job.job @parts placement <cpu, [0:0-1]> {
  %v = job.variable "v" init <ones> {sbp = #job.sbp<S(1)>} : tensor<4x4xf32>
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<4x4xf32>
  // expected-error@+1 {{convert-job-to-plan: operand 0 lies as}}
  job.assign %v to %w : tensor<4x4xf32>
}
