// RUN: penstock-opt %s -p job-place --split-input-file | filecheck %s --check-prefix PLACE
// RUN: penstock-opt %s -p job-place,job-infer-sbp,job-insert-boxing --split-input-file | filecheck %s --check-prefix BOX
// RUN: penstock-opt %s -p job-place,job-infer-sbp,job-insert-boxing,convert-job-to-plan --split-input-file | filecheck %s --check-prefix PLAN
// RUN: penstock-opt %s --pipeline cpu --split-input-file | filecheck %s --check-prefix LAUNCH

// What is assigned to a variable is brought to where the variable is, wherever the job is.

// PLACE-LABEL: job.job @elsewhere
// PLAN-LABEL:  plan.plan @elsewhere
// LAUNCH-LABEL:   launch.program @elsewhere
job.job @elsewhere placement <cpu, [0:0]> {
  // PLACE:      %[[X:.+]] = job.input "x"
  // PLACE-NEXT: %[[D:.+]] = job.copy %[[X]] to <0, cuda:0>
  %x = job.input "x" : tensor<8xf32>
  %w = job.variable "w" init <ones> {placement = #job.placement<cuda, [0:0]>} : tensor<8xf32>
  // PLACE: job.assign %[[D]] to %{{.+}} : tensor<8xf32>
  // PLAN:  plan.task "assign" on <0, cuda:0> stream <compute, 0>
  // LAUNCH:      launch.actor @assign on <0, cuda:0> stream {{.}} reads [@"x_cuda/out"]
  // LAUNCH-NEXT: launch.copy @"x_cuda/out" to @w
  job.assign %x to %w : tensor<8xf32>
}

// -----

// A part of a variable is assigned to on each device that has one.

// BOX-LABEL:  job.job @parts
// PLAN-LABEL: plan.plan @parts
job.job @parts placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<8xf32>
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<8xf32>
  // BOX:      %[[S:.+]] = job.boxing %{{.+}} from <B> on <cpu, [0:0]> to <S(0)> on <cpu, [0:0-1]>
  // BOX:      %[[W:.+]] = job.variable "w"
  // BOX:      job.assign %[[S]] to %[[W]] : tensor<8xf32>
  // PLAN:      plan.task "assign@0.cpu.0" on <0, cpu:0>
  // PLAN-NEXT: ^bb0(%[[V0:.+]]: tensor<4xf32>, %[[W0:.+]]: tensor<4xf32>):
  // PLAN-NEXT:   job.assign %[[V0]] to %[[W0]] : tensor<4xf32>
  // PLAN:      plan.task "assign@0.cpu.1" on <0, cpu:1>
  // PLAN-NEXT: ^bb0(%[[V1:.+]]: tensor<4xf32>, %[[W1:.+]]: tensor<4xf32>):
  // PLAN-NEXT:   job.assign %[[V1]] to %[[W1]] : tensor<4xf32>
  job.assign %x to %w : tensor<8xf32>
}
