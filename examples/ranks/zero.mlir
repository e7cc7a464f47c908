// ZeRO (stage 3) by hand: each rank has a part of the weights, of their gradients and of
// the states of their optimizer, and rows of the batch. Weights are gathered where they
// are used, and gradients summed into the parts that their ranks update.
//
//   penstock-run examples/ranks/zero.mlir --ranks 2 --random-inputs 1

!rows = tensor<16x32xf32>
!hidden = tensor<16x64xf32>
!scores = tensor<16x8xf32>
!wide = tensor<32x64xf32>
!tall = tensor<64x8xf32>

job.job @zero placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" {sbp = #job.sbp<S(0)>} : !rows
  %t = job.input "t" {sbp = #job.sbp<S(0)>} : !scores
  %w1 = job.variable "w1" init <xavier_uniform, seed = 1> {sbp = #job.sbp<S(0)>} : !wide
  %w2 = job.variable "w2" init <xavier_uniform, seed = 2> {sbp = #job.sbp<S(0)>} : !tall

  %h1 = op.matmul %x, %w1 {sbp = #job.sbp<S(0)>} : !rows, !wide -> !hidden
  %h2 = op.tanh %h1 {sbp = #job.sbp<S(0)>} : !hidden -> !hidden
  %y = op.matmul %h2, %w2 {sbp = #job.sbp<S(0)>} : !hidden, !tall -> !scores
  %d = op.sub %y, %t {sbp = #job.sbp<S(0)>} : !scores, !scores -> !scores
  %q = op.mul %d, %d {sbp = #job.sbp<S(0)>} : !scores, !scores -> !scores
  %loss = op.reduce_mean %q axes [0, 1] : !scores -> tensor<f32>
  %g1, %g2 = job.gradients of %loss by %w1, %w2 : tensor<f32>, !wide, !tall
  %rate = op.constant dense<0.01> : tensor<f32>
  job.update %w1 by %g1 with <momentum> rate %rate : !wide
  job.update %w2 by %g2 with <momentum> rate %rate : !tall
  job.output "loss", %loss : tensor<f32>
}
