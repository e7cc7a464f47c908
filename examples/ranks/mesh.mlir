// Data and tensor parallel training on a mesh of ranks, two rows of two: rows have parts
// of the batch, columns parts of the hidden numbers. Gradients are summed over a column,
// results of the second matrix over a row.
//
//   penstock-run examples/ranks/mesh.mlir --ranks 4 --random-inputs 1

!rows = tensor<16x32xf32>
!hidden = tensor<16x64xf32>
!scores = tensor<16x8xf32>
!wide = tensor<32x64xf32>
!tall = tensor<64x8xf32>

job.job @mesh placement <cpu, [0:0, 1:0, 2:0, 3:0], hierarchy = [2, 2]> {
  %x = job.input "x" {sbp = #job.sbp<S(0), B>} : !rows
  %t = job.input "t" {sbp = #job.sbp<S(0), B>} : !scores
  %w1 = job.variable "w1" init <xavier_uniform, seed = 1> {sbp = #job.sbp<B, S(1)>} : !wide
  %w2 = job.variable "w2" init <xavier_uniform, seed = 2> {sbp = #job.sbp<B, S(0)>} : !tall

  %h1 = op.matmul %x, %w1 {sbp = #job.sbp<S(0), S(1)>} : !rows, !wide -> !hidden
  %h2 = op.tanh %h1 {sbp = #job.sbp<S(0), S(1)>} : !hidden -> !hidden
  %y = op.matmul %h2, %w2 {sbp = #job.sbp<S(0), P>} : !hidden, !tall -> !scores
  %d = op.sub %y, %t {sbp = #job.sbp<S(0), B>} : !scores, !scores -> !scores
  %q = op.mul %d, %d {sbp = #job.sbp<S(0), B>} : !scores, !scores -> !scores
  %loss = op.reduce_mean %q axes [0, 1] : !scores -> tensor<f32>
  %g1, %g2 = job.gradients of %loss by %w1, %w2 : tensor<f32>, !wide, !tall
  %rate = op.constant dense<0.01> : tensor<f32>
  job.update %w1 by %g1 with <sgd> rate %rate : !wide
  job.update %w2 by %g2 with <sgd> rate %rate : !tall
  job.output "loss", %loss : tensor<f32>
}
