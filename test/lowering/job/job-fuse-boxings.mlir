// RUN: penstock-opt %s -p 'job-fuse-boxings{bytes=40}' | filecheck %s
// RUN: not penstock-opt %s -p 'job-fuse-boxings{bytes=0}' 2>&1 | filecheck %s --check-prefix NONE

// NONE: a bucket has at least a byte, got 0

// Tensors of more bytes go to the next bucket; one alone stays as it is.

// CHECK-LABEL: job.job @sizes
// CHECK:     op.concat %a, %b axis 0
// CHECK:     job.boxing %{{.*}} : tensor<8xf32>
// CHECK-NOT: op.concat
// CHECK:     %c_B = job.boxing %c {{.*}} : tensor<4xf32>
job.job @sizes placement <cpu, [0:0, 1:0]> {
  %a = job.variable "a" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %a_B = job.boxing %a from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<4xf32>
  %b = job.variable "b" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %b_B = job.boxing %b from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<4xf32>
  %c = job.variable "c" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %c_B = job.boxing %c from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<4xf32>
  %d = op.add %a_B, %b_B {sbp = #job.sbp<B>} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %e = op.add %d, %c_B {sbp = #job.sbp<B>} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
}

// A sum that is read before the next one is there is in a bucket before. Others are of
// another element type or layout, or ask for slots.

// CHECK-LABEL: job.job @apart
// CHECK-NOT: op.concat
job.job @apart placement <cpu, [0:0, 1:0]> {
  %a = job.variable "a" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %a_B = job.boxing %a from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<4xf32>
  %b = op.relu %a_B {sbp = #job.sbp<B>} : tensor<4xf32> -> tensor<4xf32>
  %c = job.variable "c" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %c_B = job.boxing %c from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<4xf32>
  %d = job.variable "d" init <ones> {sbp = #job.sbp<P>} : tensor<4xf64>
  %d_B = job.boxing %d from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> : tensor<4xf64>
  %e = job.variable "e" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %e_S = job.boxing %e from <P> on <cpu, [0:0, 1:0]> to <S(0)> on <cpu, [0:0, 1:0]> : tensor<4xf32>
  %f = job.variable "f" init <ones> {sbp = #job.sbp<P>} : tensor<4xf32>
  %f_B = job.boxing %f from <P> on <cpu, [0:0, 1:0]> to <B> on <cpu, [0:0, 1:0]> {slots = 2 : i64} : tensor<4xf32>
}

// Of a mesh the sums along one dimension may go together; ops say where they run, if the
// job runs elsewhere.

// CHECK-LABEL: job.job @mesh
// CHECK: op.concat %a, %b axis 0 {sbp = #job.sbp<P, B>, placement = #job.placement<cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]>}
job.job @mesh placement <cpu, [0:0]> {
  %a = job.variable "a" init <ones> {placement = #job.placement<cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]>, sbp = #job.sbp<P, B>} : tensor<4xf32>
  %a_B = job.boxing %a from <P, B> on <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> to <B, B> on <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> : tensor<4xf32>
  %b = job.variable "b" init <ones> {placement = #job.placement<cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]>, sbp = #job.sbp<P, B>} : tensor<4xf32>
  %b_B = job.boxing %b from <P, B> on <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> to <B, B> on <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> : tensor<4xf32>
}
