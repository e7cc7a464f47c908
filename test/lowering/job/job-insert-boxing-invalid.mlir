// RUN: penstock-opt %s -p job-insert-boxing --verify-diagnostics --split-input-file --allow-unregistered-dialect

job.job @not_inferred placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{job-insert-boxing: op.relu has no sbp; job-infer-sbp finds it}}
  %r = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{job-insert-boxing: sbp should be a #job.sbp for each result, got "B"}}
  %s = op.relu %x {sbp = "B"} : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{job-insert-boxing: tensor<4xf32> cannot be #job.sbp<S(1)> on #job.placement<cpu, [0:0-1]>: it has no axis 1}}
  %t = op.relu %x {sbp = #job.sbp<S(1)>} : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{job-insert-boxing: tensor<4xf32> cannot be #job.sbp<S(2)> on #job.placement<cpu, [0:0-1]>: it has no axis 2}}
  %u = op.relu %x {sbp = #job.sbp<B>, operand_sbp = [#job.sbp<S(2)>]} : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{job-insert-boxing: test.op cannot run on several devices: it is no op on tensors}}
  %v = "test.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
}
