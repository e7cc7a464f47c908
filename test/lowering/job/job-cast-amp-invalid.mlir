// RUN: not penstock-opt %s -p 'job-cast-amp{type=f8}' 2>&1 | filecheck %s

// CHECK: error: job-cast-amp: the type should be none, bf16 or f16, got 'f8'
job.job @types placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "x", %x : tensor<4xf32>
}
