// RUN: penstock-opt %s -p job-place,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,verify-plan --split-input-file | filecheck %s
// RUN: penstock-opt %s -p job-place,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-alias-registers,regst-plan-memory,verify-plan --split-input-file | filecheck %s

// Memory of a host that is registered for transfers serves as memory that is not: slices
// that go to other ranks stay views, and what they are parts of is registered.

!t = tensor<8x4xf32>
!h = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @slices
// CHECK:         %[[X:.+]] = regst.register "x/out" {{.*}} on <0, network>
// CHECK:         regst.register "lo/out" alias %[[X]] : {{.*}} slots 1 on <0, network>
// CHECK:         regst.register "hi/out" alias %[[X]] : {{.*}} at 64 slots 1 on <0, network>
// CHECK:         regst.register "a/out" alias %{{.+}} slots 2 on <1, network>
job.job @slices placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %lo = op.slice %x from [0, 0] to [4, 4] by [1, 1] : !t -> !h
  %hi = op.slice %x from [4, 0] to [8, 4] by [1, 1] : !t -> !h
  %a = op.softmax %lo {placement = #job.placement<cpu, [1:0]>} : !h -> !h
  %b = op.softmax %hi {placement = #job.placement<cpu, [2:0]>} : !h -> !h
  job.output "a", %a : !h
  job.output "b", %b : !h
}

// -----

// So does memory that is pinned for a device, and what is both.

!t = tensor<8x4xf32>
!h = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @parts
// CHECK:         %[[Y:.+]] = regst.register "y/out" {{.*}} on <0, pinned_network cuda:0>
// CHECK:         regst.register "p/out" alias %[[Y]] : {{.*}} slots 1 on <0, pinned_network cuda:0>
// CHECK:         regst.register "q/out" alias %[[Y]] : {{.*}} at 64 slots 1 on <0, pinned_network cuda:0>
// CHECK:         regst.register "e/out" alias %[[Y]] : {{.*}} slots 1 on <0, pinned_network cuda:0>
job.job @parts placement <cpu, [0:0]> {
  %p = job.input "p" : !h
  %q = job.input "q" : !h
  %y = op.concat %p, %q axis 0 : !h, !h -> !t
  %d = op.relu %y {placement = #job.placement<cuda, [0:0]>} : !t -> !t
  %e = op.reshape %y to [32] : !t -> tensor<32xf32>
  %f = op.relu %e {placement = #job.placement<cpu, [1:0]>} : tensor<32xf32> -> tensor<32xf32>
  job.output "d", %d : !t
  job.output "f", %f : tensor<32xf32>
}
