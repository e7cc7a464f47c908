// RUN: penstock-opt %s -p job-place,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory -t memory-report | filecheck %s

// An alias has no bytes of its own, and says so; what else hints would have it lie over is
// said with the reason, and so is why a result lies over nothing.

!t = tensor<4x8xf32>

// CHECK: n/out {{.*}} no alias: kernel: operand 0: op.reduce_sum cannot write result 0 over it
// CHECK: a/out {{.*}} alias of y/out; hint rejected: over 0: reader: 'b' may read it later
job.job @hints placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %a = op.add %x, %y {in_place = [#op.hint<may over 0>, #op.hint<may over 1>]} : !t, !t -> !t
  %b = op.sub %x, %a : !t, !t -> !t
  %n = op.reduce_sum %b axes [0] {in_place = [#op.hint<may over 0>]} : !t -> tensor<8xf32>
  job.output "n", %n : tensor<8xf32>
}
