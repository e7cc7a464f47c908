// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers | filecheck %s

// Where views of views would keep the bytes for too long, they are left out: "c" is
// needed while "w" is, and alone keeps 64 bytes instead of the 1,024 of "k".

// CHECK-LABEL: plan.plan @parents
// CHECK:         %[[K:.+]] = regst.register "k/out" slots 1
// CHECK:         regst.register "a/out" alias %[[K]] :
// CHECK:         regst.register "b/out" alias %[[K]] :
// CHECK:         regst.register "c/out" slots 1 {{.*}}peak: 3584 bytes would be in use at once instead of 2624
job.job @parents placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<16x16xf32>
  %k = op.exp %x : tensor<16x16xf32> -> tensor<16x16xf32>
  %a = op.slice %k from [0, 0] to [8, 16] by [1, 1] : tensor<16x16xf32> -> tensor<8x16xf32>
  %b = op.slice %k from [8, 0] to [16, 16] by [1, 1] : tensor<16x16xf32> -> tensor<8x16xf32>
  %c = op.slice %a from [0, 0] to [1, 16] by [1, 1] : tensor<8x16xf32> -> tensor<1x16xf32>
  %t = op.mul %a, %b : tensor<8x16xf32>, tensor<8x16xf32> -> tensor<8x16xf32>
  %w = op.concat %t, %t, %t, %t axis 0 : tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<8x16xf32> -> tensor<32x16xf32>
  job.output "w", %w : tensor<32x16xf32>
  %nc = op.neg %c : tensor<1x16xf32> -> tensor<1x16xf32>
  job.output "nc", %nc : tensor<1x16xf32>
}
