// RUN: not penstock-opt %s -p 'job-place{device=GPU}' 2>&1 | filecheck %s

// CHECK: job-place: a device kind is a lower case word, got 'GPU'

job.job @single placement <cuda, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
}
