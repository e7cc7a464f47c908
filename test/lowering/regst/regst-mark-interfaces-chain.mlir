// RUN: penstock-opt %s -p job-place,convert-job-to-plan,plan-create-registers,regst-mark-interfaces | filecheck %s

// An input that is put out, too, keeps its register, and the output gets one of its own,
// whichever of the two names comes first.

// CHECK-LABEL: plan.plan @first
// CHECK:         regst.register "x/out" {{.*}}interface "p"
job.job @first placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "p", %x : tensor<4xf32>
}

// CHECK-LABEL: plan.plan @a
// CHECK:         regst.register "x/out" {{.*}}interface "p"
// CHECK:         regst.register "q/in" {{.*}}interface "q"
job.job @a placement <cpu, [0:0]> {
  %x = job.input "p" : tensor<4xf32>
  job.output "q", %x : tensor<4xf32>
}

// CHECK-LABEL: plan.plan @b
// CHECK:         regst.register "x/out" {{.*}}interface "q"
// CHECK:         regst.register "p/in" {{.*}}interface "p"
job.job @b placement <cpu, [0:0]> {
  %x = job.input "q" : tensor<4xf32>
  job.output "p", %x : tensor<4xf32>
}
