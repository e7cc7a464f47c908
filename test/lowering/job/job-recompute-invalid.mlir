// RUN: not penstock-opt %s -p 'job-recompute{policy=most}' 2>&1 | filecheck %s --check-prefix=POLICY
// RUN: not penstock-opt %s -p 'job-recompute{policy=budget}' 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not penstock-opt %s -p 'job-recompute{budget=9}' 2>&1 | filecheck %s --check-prefix=BOTH
// RUN: not penstock-opt %s -p 'job-recompute{policy=budget budget=-1}' 2>&1 | filecheck %s --check-prefix=NEGATIVE
// RUN: not penstock-opt %s -p 'job-recompute{policy=budget budget=9}' 2>&1 | filecheck %s --check-prefix=LEAST

// POLICY: no policy 'most', known are auto, segments, min-cut, budget
// BOTH: policy=budget and budget=<bytes> go together
// NEGATIVE: budget must not be negative, got -1
// LEAST: job-recompute-invalid.mlir:11:{{.*}}no plan of the job is within the budget of 9 bytes: the least that was found needs {{[0-9]+}}
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x8xf32>
  %a = op.exp %x : tensor<8x8xf32> -> tensor<8x8xf32>
  %d = op.mul %x, %a {pass = "backward"} : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  job.output "d", %d : tensor<8x8xf32>
}
