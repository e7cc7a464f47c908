// One layer of a transformer encoder (post-norm, as in BERT): self-attention of 4 heads
// over 2 sequences of 16 tokens of 32 numbers, then a network of one hidden layer, each
// added to its input and normalised. The weights are random.
//
//   penstock-run examples/encoder.mlir --random-inputs 1 --check numpy

!tokens = tensor<2x16x32xf32>
!split = tensor<2x16x4x8xf32>
!heads = tensor<2x4x16x8xf32>
!scores = tensor<2x4x16x16xf32>
!hidden = tensor<2x16x64xf32>
!square = tensor<32x32xf32>
!wide = tensor<32x64xf32>
!tall = tensor<64x32xf32>
!row = tensor<32xf32>
!long = tensor<64xf32>

job.job @encoder placement <cpu, [0:0]> {
  %x = job.input "x" : !tokens
  %mask = job.input "mask" : tensor<2x1x1x16xi1>

  // Self-attention.
  %wq = job.variable "wq" init <xavier_uniform, seed = 1> : !square
  %wk = job.variable "wk" init <xavier_uniform, seed = 1> : !square
  %wv = job.variable "wv" init <xavier_uniform, seed = 1> : !square
  %wo = job.variable "wo" init <xavier_uniform, seed = 1> : !square
  %bq = job.variable "bq" init <normal, seed = 1, std = 0.1> : !row
  %bk = job.variable "bk" init <normal, seed = 1, std = 0.1> : !row
  %bv = job.variable "bv" init <normal, seed = 1, std = 0.1> : !row
  %bo = job.variable "bo" init <normal, seed = 1, std = 0.1> : !row

  %q0 = op.matmul %x, %wq : !tokens, !square -> !tokens
  %k0 = op.matmul %x, %wk : !tokens, !square -> !tokens
  %v0 = op.matmul %x, %wv : !tokens, !square -> !tokens
  %q1 = op.add %q0, %bq : !tokens, !row -> !tokens
  %k1 = op.add %k0, %bk : !tokens, !row -> !tokens
  %v1 = op.add %v0, %bv : !tokens, !row -> !tokens
  %q2 = op.reshape %q1 to [2, 16, 4, 8] : !tokens -> !split
  %k2 = op.reshape %k1 to [2, 16, 4, 8] : !tokens -> !split
  %v2 = op.reshape %v1 to [2, 16, 4, 8] : !tokens -> !split
  %q = op.transpose %q2 by [0, 2, 1, 3] : !split -> !heads
  %k = op.transpose %k2 by [0, 2, 1, 3] : !split -> !heads
  %v = op.transpose %v2 by [0, 2, 1, 3] : !split -> !heads

  // Scores of 1 / sqrt(8), and nothing from tokens that are masked.
  %scale = op.constant dense<0.35355339> : tensor<f32>
  %none = op.constant dense<-1.0e9> : tensor<f32>
  %s0 = op.matmul %q, %k transpose_b : !heads, !heads -> !scores
  %s1 = op.mul %s0, %scale : !scores, tensor<f32> -> !scores
  %s2 = op.where %mask, %s1, %none
    : tensor<2x1x1x16xi1>, !scores, tensor<f32> -> !scores
  %p = op.softmax %s2 axis 3 : !scores -> !scores
  %a0 = op.matmul %p, %v : !scores, !heads -> !heads
  %a1 = op.transpose %a0 by [0, 2, 1, 3] : !heads -> !split
  %a2 = op.reshape %a1 to [2, 16, 32] : !split -> !tokens
  %a3 = op.matmul %a2, %wo : !tokens, !square -> !tokens
  %a4 = op.add %a3, %bo : !tokens, !row -> !tokens

  %g1 = job.variable "g1" init <uniform, seed = 1, low = 0.5, high = 1.5> : !row
  %n1 = job.variable "n1" init <normal, seed = 1, std = 0.1> : !row
  %r1 = op.add %x, %a4 : !tokens, !tokens -> !tokens
  %y = op.layer_norm %r1, %g1, %n1 axis 2 : !tokens, !row, !row -> !tokens

  // The network.
  %w1 = job.variable "w1" init <xavier_uniform, seed = 1> : !wide
  %b1 = job.variable "b1" init <normal, seed = 1, std = 0.1> : !long
  %w2 = job.variable "w2" init <xavier_uniform, seed = 1> : !tall
  %b2 = job.variable "b2" init <normal, seed = 1, std = 0.1> : !row

  %f0 = op.matmul %y, %w1 : !tokens, !wide -> !hidden
  %f1 = op.add %f0, %b1 : !hidden, !long -> !hidden
  %f2 = op.gelu %f1 : !hidden -> !hidden
  %f3 = op.matmul %f2, %w2 : !hidden, !tall -> !tokens
  %f4 = op.add %f3, %b2 : !tokens, !row -> !tokens

  %g2 = job.variable "g2" init <uniform, seed = 1, low = 0.5, high = 1.5> : !row
  %n2 = job.variable "n2" init <normal, seed = 1, std = 0.1> : !row
  %r2 = op.add %y, %f4 : !tokens, !tokens -> !tokens
  %z = op.layer_norm %r2, %g2, %n2 axis 2 : !tokens, !row, !row -> !tokens
  job.output "z", %z : !tokens
}
