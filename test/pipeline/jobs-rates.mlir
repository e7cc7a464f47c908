// RUN: penstock-opt %s --pipeline jobs --split-input-file --verify-diagnostics | filecheck %s

!t = tensor<16x16xf32>

// An input that another job makes is released once its reader has acted as often as it
// reads one piece.
// CHECK-LABEL: jobs = {ahead =
// CHECK: launch.actor @"ahead/p" job "ahead" {{.*}} writes [@"ahead/p/out", @"ahead/p -> ahead/x/release"] every [@"ahead/x/out" = 4, @"ahead/p -> ahead/x/release" = 4]
// CHECK: launch.actor @"ahead/x/release" job "ahead" {{.*}} reads [@"ahead/x/out", @"ahead/p -> ahead/x/release"] writes [] {
job.job @ahead placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %p = op.repeat %x times 4 : !t -> !t
  %a = op.tanh %p : !t -> !t
  %s = op.acc %a every 4 : !t -> !t
  job.output "y", %s : !t
}
job.job @maker placement <cpu, [0:0]> {
  %z = job.input "z" : !t
  %y = op.relu %z : !t -> !t
  job.output "x", %y : !t
}

// -----

!t = tensor<16x16xf32>

// An input that another job makes has one slot: it comes once in a run.
job.job @several placement <cpu, [0:0]> {
  // expected-error @below {{job-add-push-pull: job 'several' takes 'x' 4 times in a run, and shares it with job 'maker': what jobs share comes once}}
  %x = job.input "x" : !t
  %a = op.relu %x : !t -> !t
  %s = op.acc %a every 4 : !t -> !t
  job.output "y", %s : !t
}
job.job @maker placement <cpu, [0:0]> {
  %z = job.input "z" : !t
  %y = op.relu %z : !t -> !t
  job.output "x", %y : !t
}
