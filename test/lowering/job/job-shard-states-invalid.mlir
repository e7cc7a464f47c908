// RUN: not penstock-opt %s -p 'job-shard-states{stage=4}' 2>&1 | filecheck %s --check-prefix STAGE
// RUN: not penstock-opt %s -p 'job-shard-states{stage=1 least=0}' 2>&1 | filecheck %s --check-prefix LEAST

// STAGE: error: job-shard-states: the stage should be 0, 1, 2 or 3, got 4
// LEAST: error: job-shard-states: a part should have at least 1 element, got 0
job.job @options placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "x", %x : tensor<4xf32>
}
