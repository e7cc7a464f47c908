// RUN: penstock-opt %s -p 'convert-job-to-plan{collectives=ring}' | filecheck %s
// RUN: penstock-opt %s -p 'convert-job-to-plan{collectives=ring},plan-split-ranks,plan-create-registers,verify-plan' -o %t
// RUN: penstock-opt %s -p 'convert-job-to-plan{collectives=mpi}' | filecheck %s --check-prefix MPI
// RUN: not penstock-opt %s -p 'convert-job-to-plan{collectives=tree}' 2>&1 | filecheck %s --check-prefix CHOICE

// CHOICE: collectives are done by copies, ring, mpi, got 'tree'

!t = tensor<4x6xf32>

// A sum is a task of each rank, under one tag. MPI does not add f16.

// CHECK-LABEL: plan.plan @sum
// CHECK: plan.task "b@0.cpu.0" on <0, cpu:0> stream <network, 0> {{.*}}attributes {collective = "all_reduce", group = #job.placement<cpu, [0:0, 1:0]>} {
// CHECK: job.collective "all_reduce" by "ring" over [0, 1] tag 0 ins(
// CHECK: plan.task "b@1.cpu.0" on <1, cpu:0> stream <network, 0>
// CHECK: job.collective "all_reduce" by "ring" over [0, 1] tag 0 ins(
// MPI-LABEL: plan.plan @sum
// MPI: job.collective "all_reduce" by "ring" over [0, 1] tag 0 ins(
job.job @sum placement <cpu, [0:0, 1:0]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<8x6xf16>
  %p = op.reduce_sum %w axes [0] {sbp = #job.sbp<P>} : tensor<8x6xf16> -> tensor<6xf16>
  %b = job.boxing %p from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<6xf16>
  %r = op.relu %b {sbp = #job.sbp<B>} : tensor<6xf16> -> tensor<6xf16>
}

// Blocks lie one behind the other: parts of rows do, parts of columns are laid so.

// CHECK-LABEL: plan.plan @cuts
// CHECK:      %{{.*}} = op.reshape %{{.*}} to [2, 2, 3] : tensor<2x6xf32> -> tensor<2x2x3xf32>
// CHECK:      %{{.*}} = op.transpose %{{.*}} by [1, 0, 2] : tensor<2x2x3xf32> -> tensor<2x2x3xf32>
// CHECK:      plan.task "a@0.cpu.0"
// CHECK:      job.collective "all_to_all" by "ring" over [0, 1] tag 0 ins(%{{.*}} : tensor<2x2x3xf32>) -> tensor<4x3xf32>
// CHECK:      plan.task "b.collective@0.cpu.0"
// CHECK:      job.collective "all_gather" by "ring" over [0, 1] tag 1 ins(%{{.*}} : tensor<4x3xf32>) -> tensor<2x4x3xf32>
// CHECK:      %{{.*}} = op.transpose %{{.*}} by [1, 0, 2] : tensor<2x4x3xf32> -> tensor<4x2x3xf32>
// CHECK:      plan.task "b@0.cpu.0"
// CHECK:      %{{.*}} = op.reshape %{{.*}} to [4, 6] : tensor<4x2x3xf32> -> tensor<4x6xf32>
// MPI-LABEL: plan.plan @cuts
// MPI: job.collective "all_gather" by "mpi"
job.job @cuts placement <cpu, [0:0, 1:0]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : !t
  %a = job.boxing %w from <S(0)> on <cpu, [0:0, 1:0]> to <S(1)> on <cpu, [0:0, 1:0]> : !t
  %b = job.boxing %a from <S(1)> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : !t
  %r = op.relu %b {sbp = #job.sbp<B>} : !t -> !t
}

// A broadcast is from the first of the ranks it lists. A part of sums by a ring has a place
// aside, and each row of a mesh is a group of its own.

// CHECK-LABEL: plan.plan @root
// CHECK:      plan.task "b@0.cpu.0"
// CHECK:      job.collective "broadcast" by "ring" over [1, 0] tag 0 ins() -> tensor<4x6xf32>
// CHECK:      plan.task "b.collective@1.cpu.0"
// CHECK:      job.collective "broadcast" by "ring" over [1, 0] tag 0 ins(%{{.*}} : tensor<4x6xf32>)
job.job @root placement <cpu, [0:0, 1:0]> {
  %x = job.variable "x" init <ones> {placement = #job.placement<cpu, [1:0]>} : !t
  %b = job.boxing %x from <B> on <cpu, [1:0]> to <B> on <cpu, [0:0, 1:0]> : !t
  %r = op.relu %b {sbp = #job.sbp<B>} : !t -> !t
}

// CHECK-LABEL: plan.plan @mesh
// CHECK: over [0, 2] tag 0 ins(%{{.*}}) -> tensor<2x3xf32>, tensor<2x3xf32>
// CHECK: over [1, 3] tag 1
// CHECK: over [0, 2] tag 0
// CHECK: over [1, 3] tag 1
// MPI-LABEL: plan.plan @mesh
// MPI: job.collective "reduce_scatter" by "mpi" over [0, 2] tag 0 ins(%{{.*}}) -> tensor<2x3xf32>{{$}}
job.job @mesh placement <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0), S(2)>} : tensor<4x4x6xf32>
  %p = op.reduce_sum %w axes [0] {sbp = #job.sbp<P, S(1)>} : tensor<4x4x6xf32> -> !t
  %b = job.boxing %p from <P, S(1)> on <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> to <S(0), S(1)> on <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> : !t
  %r = op.relu %b {sbp = #job.sbp<S(0), S(1)>} : !t -> !t
}

// Copies stay where a rank has two devices of a group, or one that is no CPU, and where one
// rank has all that there is.

// CHECK-LABEL: plan.plan @copies
// CHECK-NOT: job.collective
job.job @copies placement <cpu, [0:0-1, 1:0-1]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : !t
  %b = job.boxing %w from <S(0)> on <cpu, [0:0-1, 1:0-1]> to <B> on <cpu, [0:0-1, 1:0-1]> : !t
  %r = op.relu %b {sbp = #job.sbp<B>} : !t -> !t
}
job.job @of_gpus placement <cuda, [0:0, 1:0]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : !t
  %b = job.boxing %w from <S(0)> on <cuda, [0:0, 1:0]> to <B> on <cuda, [0:0, 1:0]> : !t
  %r = op.relu %b {sbp = #job.sbp<B>} : !t -> !t
}
job.job @to_one placement <cpu, [0:0, 1:0]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : !t
  %b = job.boxing %w from <S(0)> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0]> : !t
  job.output "y", %b : !t
}
