// RUN: penstock-opt %s -p job-place --verify-diagnostics --split-input-file
// RUN: not penstock-opt %s -p 'job-place{device=GPU}' --split-input-file 2>&1 | filecheck %s

// CHECK: job-place: a device kind is a lower case word, got 'GPU'

// All placements on several devices are listed, in all jobs.

// expected-error@+1 {{job-place: placements on several devices need SBP, which this version does not split, got #job.placement<cuda, [0:0-3]>}}
job.job @several placement <cuda, [0:0-3]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{job-place: placements on several devices need SBP, which this version does not split, got #job.placement<cpu, [0:0, 1:0]>}}
  %r = op.relu %x {placement = #job.placement<cpu, [0:0, 1:0]>} : tensor<4xf32> -> tensor<4xf32>
}

// expected-error@+1 {{job-place: placements on several devices need SBP, which this version does not split, got #job.placement<cpu, [0:0-1]>}}
job.job @other placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
}

// -----

job.job @single placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
}
