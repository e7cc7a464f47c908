// RUN: penstock-opt %s -p op-fold-constants,convert-job-to-plan --split-input-file | filecheck %s

// Each part of an op on several devices has its hints, which go into its task.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @parts
// CHECK:         plan.task "a@0.cpu.0"
// CHECK:           op.relu {{.*}} {in_place = [#op.hint<may over 0>]} : tensor<2x4xf32>
// CHECK:         plan.task "a@0.cpu.1"
// CHECK:           op.relu {{.*}} {in_place = [#op.hint<may over 0>]} : tensor<2x4xf32>
job.job @parts placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <zeros> {sbp = #job.sbp<S(0)>} : !t
  %a = op.relu %w {sbp = #job.sbp<S(0)>, in_place = [#op.hint<may over 0>]} : !t -> !t
}

// -----

// A constant that an op becomes lies over nothing.

// CHECK-LABEL: plan.plan @constant
// CHECK:         op.constant dense<-1.000000e+00> : tensor<4xf32>
job.job @constant placement <cpu, [0:0]> {
  %c = op.constant dense<1.0> : tensor<4xf32>
  %n = op.neg %c {in_place = [#op.hint<may over 0>]} : tensor<4xf32> -> tensor<4xf32>
  job.output "n", %n : tensor<4xf32>
}
