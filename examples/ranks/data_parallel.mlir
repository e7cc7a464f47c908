// Data parallel training: each rank has all weights, and rows of the batch. Gradients
// are summed over ranks, and each rank updates its weights alike.
//
//   penstock-run examples/ranks/data_parallel.mlir --ranks 2 --random-inputs 1
//
// On more ranks, the job is placed on more devices.

!rows = tensor<16x32xf32>
!hidden = tensor<16x64xf32>
!scores = tensor<16x8xf32>
!wide = tensor<32x64xf32>
!long = tensor<64xf32>
!tall = tensor<64x8xf32>

job.job @data_parallel placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" {sbp = #job.sbp<S(0)>} : !rows
  %t = job.input "t" {sbp = #job.sbp<S(0)>} : !scores
  %w1 = job.variable "w1" init <xavier_uniform, seed = 1> {sbp = #job.sbp<B>} : !wide
  %b1 = job.variable "b1" init <normal, seed = 2> {sbp = #job.sbp<B>} : !long
  %w2 = job.variable "w2" init <xavier_uniform, seed = 3> {sbp = #job.sbp<B>} : !tall

  %h0 = op.matmul %x, %w1 : !rows, !wide -> !hidden
  %h1 = op.add %h0, %b1 : !hidden, !long -> !hidden
  %h2 = op.tanh %h1 : !hidden -> !hidden
  %y = op.matmul %h2, %w2 : !hidden, !tall -> !scores

  %d = op.sub %y, %t : !scores, !scores -> !scores
  %q = op.mul %d, %d : !scores, !scores -> !scores
  %loss = op.reduce_mean %q axes [0, 1] : !scores -> tensor<f32>
  %g1, %g2, %g3 = job.gradients of %loss by %w1, %b1, %w2
    : tensor<f32>, !wide, !long, !tall
  %rate = op.constant dense<0.01> : tensor<f32>
  job.update %w1 by %g1 with <momentum> rate %rate : !wide
  job.update %b1 by %g2 with <momentum> rate %rate : !long
  job.update %w2 by %g3 with <momentum> rate %rate : !tall
  job.output "loss", %loss : tensor<f32>
}
