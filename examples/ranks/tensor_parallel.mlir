// Tensor parallel training of a layer of a transformer: each rank has some of the heads
// of its attention, and some of the hidden numbers of its network. The first matrices
// are cut by columns, the second ones by rows, so a rank needs nothing of others between
// the two; each pair ends in a sum over ranks.
//
//   penstock-run examples/ranks/tensor_parallel.mlir --ranks 2 --random-inputs 1

!tokens = tensor<2x8x16xf32>
!split = tensor<2x8x4x4xf32>
!heads = tensor<2x4x8x4xf32>
!scores = tensor<2x4x8x8xf32>
!hidden = tensor<2x8x64xf32>
!square = tensor<16x16xf32>
!wide = tensor<16x64xf32>
!tall = tensor<64x16xf32>
!row = tensor<16xf32>
!long = tensor<64xf32>

job.job @tensor_parallel placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" {sbp = #job.sbp<B>} : !tokens
  %t = job.input "t" {sbp = #job.sbp<B>} : !tokens

  // Self-attention: queries, keys and values by columns, which are those of heads.
  %wq = job.variable "wq" init <xavier_uniform, seed = 1> {sbp = #job.sbp<S(1)>} : !square
  %wk = job.variable "wk" init <xavier_uniform, seed = 2> {sbp = #job.sbp<S(1)>} : !square
  %wv = job.variable "wv" init <xavier_uniform, seed = 3> {sbp = #job.sbp<S(1)>} : !square
  %wo = job.variable "wo" init <xavier_uniform, seed = 4> {sbp = #job.sbp<S(0)>} : !square
  %q0 = op.matmul %x, %wq {sbp = #job.sbp<S(2)>} : !tokens, !square -> !tokens
  %k0 = op.matmul %x, %wk {sbp = #job.sbp<S(2)>} : !tokens, !square -> !tokens
  %v0 = op.matmul %x, %wv {sbp = #job.sbp<S(2)>} : !tokens, !square -> !tokens
  %q1 = op.reshape %q0 to [2, 8, 4, 4] {sbp = #job.sbp<S(2)>} : !tokens -> !split
  %k1 = op.reshape %k0 to [2, 8, 4, 4] {sbp = #job.sbp<S(2)>} : !tokens -> !split
  %v1 = op.reshape %v0 to [2, 8, 4, 4] {sbp = #job.sbp<S(2)>} : !tokens -> !split
  %q = op.transpose %q1 by [0, 2, 1, 3] {sbp = #job.sbp<S(1)>} : !split -> !heads
  %k = op.transpose %k1 by [0, 2, 1, 3] {sbp = #job.sbp<S(1)>} : !split -> !heads
  %v = op.transpose %v1 by [0, 2, 1, 3] {sbp = #job.sbp<S(1)>} : !split -> !heads
  %scale = op.constant dense<0.5> : tensor<f32>
  %s0 = op.matmul %q, %k transpose_b {sbp = #job.sbp<S(1)>} : !heads, !heads -> !scores
  %s1 = op.mul %s0, %scale {sbp = #job.sbp<S(1)>} : !scores, tensor<f32> -> !scores
  %p = op.softmax %s1 axis 3 {sbp = #job.sbp<S(1)>} : !scores -> !scores
  %a0 = op.matmul %p, %v {sbp = #job.sbp<S(1)>} : !scores, !heads -> !heads
  %a1 = op.transpose %a0 by [0, 2, 1, 3] {sbp = #job.sbp<S(2)>} : !heads -> !split
  %a2 = op.reshape %a1 to [2, 8, 16] {sbp = #job.sbp<S(2)>} : !split -> !tokens
  %a3 = op.matmul %a2, %wo {sbp = #job.sbp<P>} : !tokens, !square -> !tokens
  %r1 = op.add %x, %a3 {sbp = #job.sbp<B>} : !tokens, !tokens -> !tokens
  %g1 = job.variable "g1" init <ones> {sbp = #job.sbp<B>} : !row
  %n1 = job.variable "n1" init <zeros> {sbp = #job.sbp<B>} : !row
  %y = op.layer_norm %r1, %g1, %n1 axis 2 {sbp = #job.sbp<B>} : !tokens, !row, !row -> !tokens

  // The network: hidden numbers by columns, and by rows behind them.
  %w1 = job.variable "w1" init <xavier_uniform, seed = 5> {sbp = #job.sbp<S(1)>} : !wide
  %b1 = job.variable "b1" init <normal, seed = 6> {sbp = #job.sbp<S(0)>} : !long
  %w2 = job.variable "w2" init <xavier_uniform, seed = 7> {sbp = #job.sbp<S(0)>} : !tall
  %f0 = op.matmul %y, %w1 {sbp = #job.sbp<S(2)>} : !tokens, !wide -> !hidden
  %f1 = op.add %f0, %b1 {sbp = #job.sbp<S(2)>} : !hidden, !long -> !hidden
  %f2 = op.gelu %f1 {sbp = #job.sbp<S(2)>} : !hidden -> !hidden
  %f3 = op.matmul %f2, %w2 {sbp = #job.sbp<P>} : !hidden, !tall -> !tokens
  %z = op.add %y, %f3 {sbp = #job.sbp<B>} : !tokens, !tokens -> !tokens

  %d = op.sub %z, %t {sbp = #job.sbp<B>} : !tokens, !tokens -> !tokens
  %e = op.mul %d, %d {sbp = #job.sbp<B>} : !tokens, !tokens -> !tokens
  %loss = op.reduce_mean %e axes [0, 1, 2] {sbp = #job.sbp<B>} : !tokens -> tensor<f32>
  %rate = op.constant dense<0.1> : tensor<f32>
  %dq, %dk, %dv, %do, %d1, %db, %d2 = job.gradients of %loss
    by %wq, %wk, %wv, %wo, %w1, %b1, %w2
    : tensor<f32>, !square, !square, !square, !square, !wide, !long, !tall
  job.update %wq by %dq with <sgd> rate %rate : !square
  job.update %wk by %dk with <sgd> rate %rate : !square
  job.update %wv by %dv with <sgd> rate %rate : !square
  job.update %wo by %do with <sgd> rate %rate : !square
  job.update %w1 by %d1 with <sgd> rate %rate : !wide
  job.update %b1 by %db with <sgd> rate %rate : !long
  job.update %w2 by %d2 with <sgd> rate %rate : !tall
  job.output "loss", %loss : tensor<f32>
}
