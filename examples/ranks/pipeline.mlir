// Pipeline parallel training: each rank has a layer, and passes on what it makes of four
// micro-batches. A rank has slots for as many of them as are on their way behind it, so
// it goes on while their gradients are computed; the last one needs no more than one.
// Weights are updated once, by the sum of gradients.
//
//   penstock-run examples/ranks/pipeline.mlir --ranks 4 --random-inputs 1

!batch = tensor<32x16xf32>
!rows = tensor<8x16xf32>
!square = tensor<16x16xf32>

job.job @pipeline placement <cpu, [0:0]> {
  %xs = job.input "x" : !batch
  %ts = job.input "t" : !batch
  %x = op.unpack %xs by 4 {slots = 4 : i64} : !batch -> !rows
  %t = op.unpack %ts by 4 : !batch -> !rows

  %w0 = job.variable "w0" init <xavier_uniform, seed = 1> : !square
  %v0 = op.repeat %w0 times 4 : !square -> !square
  %h0 = op.matmul %x, %v0 : !rows, !square -> !rows
  %a0 = op.tanh %h0 {slots = 4 : i64} : !rows -> !rows

  %w1 = job.variable "w1" init <xavier_uniform, seed = 2>
    {placement = #job.placement<cpu, [1:0]>} : !square
  %v1 = op.repeat %w1 times 4 {placement = #job.placement<cpu, [1:0]>}
    : !square -> !square
  %h1 = op.matmul %a0, %v1 {placement = #job.placement<cpu, [1:0]>}
    : !rows, !square -> !rows
  %a1 = op.tanh %h1 {placement = #job.placement<cpu, [1:0]>, slots = 4 : i64}
    : !rows -> !rows

  %w2 = job.variable "w2" init <xavier_uniform, seed = 3>
    {placement = #job.placement<cpu, [2:0]>} : !square
  %v2 = op.repeat %w2 times 4 {placement = #job.placement<cpu, [2:0]>}
    : !square -> !square
  %h2 = op.matmul %a1, %v2 {placement = #job.placement<cpu, [2:0]>}
    : !rows, !square -> !rows
  %a2 = op.tanh %h2 {placement = #job.placement<cpu, [2:0]>, slots = 2 : i64}
    : !rows -> !rows

  %w3 = job.variable "w3" init <xavier_uniform, seed = 4>
    {placement = #job.placement<cpu, [3:0]>} : !square
  %v3 = op.repeat %w3 times 4 {placement = #job.placement<cpu, [3:0]>}
    : !square -> !square
  %h3 = op.matmul %a2, %v3 {placement = #job.placement<cpu, [3:0]>}
    : !rows, !square -> !rows

  %d = op.sub %h3, %t {placement = #job.placement<cpu, [3:0]>}
    : !rows, !rows -> !rows
  %q = op.mul %d, %d {placement = #job.placement<cpu, [3:0]>}
    : !rows, !rows -> !rows
  %l = op.reduce_mean %q axes [0, 1] {placement = #job.placement<cpu, [3:0]>}
    : !rows -> tensor<f32>
  %loss = op.acc %l every 4 {placement = #job.placement<cpu, [3:0]>}
    : tensor<f32> -> tensor<f32>
  %g0, %g1, %g2, %g3 = job.gradients of %loss by %w0, %w1, %w2, %w3
    : tensor<f32>, !square, !square, !square, !square
  %rate = op.constant dense<0.1> : tensor<f32>
  job.update %w0 by %g0 with <sgd> rate %rate : !square
  job.update %w1 by %g1 with <sgd> rate %rate : !square
  job.update %w2 by %g2 with <sgd> rate %rate : !square
  job.update %w3 by %g3 with <sgd> rate %rate : !square
  job.output "loss", %loss {placement = #job.placement<cpu, [3:0]>}
    : tensor<f32>
}
