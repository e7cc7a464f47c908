// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-tasks,plan-form-waves,plan-assign-streams,plan-create-registers,regst-plan-memory,convert-plan-to-launch,launch-form-waves --split-input-file | filecheck %s --check-prefix=WAVES
// RUN: penstock-opt %s -p convert-job-to-plan,plan-order-tasks,plan-assign-streams,plan-create-registers,regst-plan-memory,convert-plan-to-launch,launch-form-chains --split-input-file | filecheck %s --check-prefix=CHAINS

!t = tensor<4xf32>

// They keep nobody out of a wave or a chain, which have them, too.

// WAVES-LABEL: launch.program @waves
// WAVES:         launch.actor @a..b
// WAVES-NEXT:      launch.call @wave_0 {{.*}} {acme.a = 1 : i64, acme.b = 1 : i64}
job.job @waves placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.exp %x {acme.a = 1 : i64} : !t -> !t
  %b = op.tanh %x {acme.b = 1 : i64} : !t -> !t
  job.output "a", %a : !t
  job.output "b", %b : !t
}

// -----

!t = tensor<4xf32>

// CHAINS-LABEL: launch.program @chains
// CHAINS:         launch.call @chain_0 {{.*}} {acme.b = 1 : i64, acme.a = 1 : i64}
job.job @chains placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %a = op.exp %x {acme.a = 1 : i64} : !t -> !t
  %b = op.tanh %a {acme.b = 1 : i64} : !t -> !t
  job.output "b", %b : !t
}
