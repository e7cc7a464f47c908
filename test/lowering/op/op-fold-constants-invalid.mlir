// RUN: not penstock-opt %s -p 'op-fold-constants{max_elements=-1}' 2>&1 | filecheck %s

// CHECK: pass 'op-fold-constants': max_elements must not be negative, got -1
job.job @nothing placement <cpu, [0:0]> {
  %a = op.constant dense<1.0> : tensor<2xf32>
  job.output "y", %a : tensor<2xf32>
}
