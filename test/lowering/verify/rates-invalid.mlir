// RUN: penstock-opt %s -p convert-job-to-plan --verify-diagnostics --split-input-file

// A sum of what comes twice and what comes once.
// expected-error@+1 {{convert-job-to-plan: op.acc and op.add act 1 and 1 times in a launch, but what goes from the one to the other wants 2 and 1}}
job.job @a placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %s = op.acc %x every 2 : tensor<4xf32> -> tensor<4xf32>
  %y = op.add %x, %s : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
