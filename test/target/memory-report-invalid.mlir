// RUN: not penstock-opt %s -t memory-report 2>&1 | filecheck %s --check-prefix=TARGET
// RUN: not penstock-opt %s --memory-map %t.html 2>&1 | filecheck %s --check-prefix=MAP

// There is nothing to report of a job, which has no registers.

// TARGET: error: target memory-report: no register has a place, run regst-plan-memory first
// MAP: error: --memory-map: no register has a place, run regst-plan-memory first
job.job @early placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
}
