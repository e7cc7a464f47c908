// A network with one hidden layer that tells which handwritten digit each of 180 images
// of 8 x 8 pixels shows. `train_digits.py` made its weights.
//
//   penstock-run examples/digits.mlir --inputs examples/digits-test.npz --check numpy

!images = tensor<180x64xf32>
!hidden = tensor<180x32xf32>
!scores = tensor<180x10xf32>

job.job @digits placement <cpu, [0:0]> {
  %x = job.input "x" : !images
  %w1 = job.variable "w1" init <npz, file = "digits-weights.npz"> : tensor<64x32xf32>
  %b1 = job.variable "b1" init <npz, file = "digits-weights.npz"> : tensor<32xf32>
  %w2 = job.variable "w2" init <npz, file = "digits-weights.npz"> : tensor<32x10xf32>
  %b2 = job.variable "b2" init <npz, file = "digits-weights.npz"> : tensor<10xf32>

  %m1 = op.matmul %x, %w1 : !images, tensor<64x32xf32> -> !hidden
  %s1 = op.add %m1, %b1 : !hidden, tensor<32xf32> -> !hidden
  %h = op.relu %s1 : !hidden -> !hidden
  %m2 = op.matmul %h, %w2 : !hidden, tensor<32x10xf32> -> !scores
  %scores = op.add %m2, %b2 : !scores, tensor<10xf32> -> !scores
  %p = op.softmax %scores axis 1 : !scores -> !scores
  job.output "probabilities", %p : !scores
}
