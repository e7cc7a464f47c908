// RUN: penstock-opt %s -p convert-job-to-plan,plan-form-waves,plan-assign-streams,plan-create-registers,regst-alias-registers | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-form-waves,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,verify-plan,convert-plan-to-launch,verify-program | filecheck %s --check-prefix=PROGRAM

// Views are judged together with others of the same bytes, and with the views of these:
// "s0" and "s2" alone would keep all of "k" until the wave, and what is cut from "s0" with
// them would be copies; all of it together needs no more than copies do.

// CHECK-LABEL: plan.plan @views
// CHECK:         %[[K:.+]] = regst.register "k/out" slots 1
// CHECK:         regst.register "s0/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 512 slots
// CHECK:         regst.register "s1/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 768 slots
// CHECK:         regst.register "s2/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> slots
// CHECK:         regst.register "s3/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 512 slots
// CHECK:         regst.register "s4/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 512 slots
// CHECK:         regst.register "s5/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 512 slots
// CHECK:         regst.register "s6/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 640 slots
// CHECK:         regst.register "s7/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 640 slots
// CHECK:         regst.register "s8/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 704 slots
// CHECK:         regst.register "s9/out" alias %[[K]] : !regst.data<tensor<16x16xf32>> at 576 slots
// PROGRAM-LABEL: launch.program @views
// PROGRAM:         launch.actor @s9 {{.*}} writes [@"s9/out"{{.*}}] {
// PROGRAM-NEXT:    }
job.job @views placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x16xf32>
  %k = op.exp %x : tensor<16x16xf32> -> tensor<16x16xf32>
  %s0 = op.slice %k from [8, 0] to [16, 16] by [1, 1] : tensor<16x16xf32> -> tensor<8x16xf32>
  %s1 = op.slice %s0 from [4, 0] to [8, 16] by [1, 1] : tensor<8x16xf32> -> tensor<4x16xf32>
  %s2 = op.slice %k from [0, 0] to [8, 16] by [1, 1] : tensor<16x16xf32> -> tensor<8x16xf32>
  %s3 = op.slice %s0 from [0, 0] to [4, 16] by [1, 1] : tensor<8x16xf32> -> tensor<4x16xf32>
  %s4 = op.slice %s3 from [0, 0] to [2, 16] by [1, 1] : tensor<4x16xf32> -> tensor<2x16xf32>
  %s5 = op.slice %s4 from [0, 0] to [1, 16] by [1, 1] : tensor<2x16xf32> -> tensor<1x16xf32>
  %s6 = op.slice %s3 from [2, 0] to [4, 16] by [1, 1] : tensor<4x16xf32> -> tensor<2x16xf32>
  %s7 = op.slice %s6 from [0, 0] to [1, 16] by [1, 1] : tensor<2x16xf32> -> tensor<1x16xf32>
  %s8 = op.slice %s6 from [1, 0] to [2, 16] by [1, 1] : tensor<2x16xf32> -> tensor<1x16xf32>
  %s9 = op.slice %s4 from [1, 0] to [2, 16] by [1, 1] : tensor<2x16xf32> -> tensor<1x16xf32>
  %ns1 = op.neg %s1 : tensor<4x16xf32> -> tensor<4x16xf32>
  %ns2 = op.neg %s2 : tensor<8x16xf32> -> tensor<8x16xf32>
  %ns5 = op.neg %s5 : tensor<1x16xf32> -> tensor<1x16xf32>
  %ns7 = op.neg %s7 : tensor<1x16xf32> -> tensor<1x16xf32>
  %ns8 = op.neg %s8 : tensor<1x16xf32> -> tensor<1x16xf32>
  %ns9 = op.neg %s9 : tensor<1x16xf32> -> tensor<1x16xf32>
  job.output "ns1", %ns1 : tensor<4x16xf32>
  job.output "ns2", %ns2 : tensor<8x16xf32>
  job.output "ns5", %ns5 : tensor<1x16xf32>
  job.output "ns7", %ns7 : tensor<1x16xf32>
  job.output "ns8", %ns8 : tensor<1x16xf32>
  job.output "ns9", %ns9 : tensor<1x16xf32>
}
