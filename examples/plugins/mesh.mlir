// Four devices in two rows and two columns, that each have a term of a contraction.
job.job @mesh placement <cpu, [0:0-3], hierarchy = [2, 2]> {
  %x = job.input "x" {sbp = #job.sbp<S(1), S(1)>} : tensor<8x16xf32>
  %w = job.variable "w" init <he_normal, seed = 1> : tensor<16x8xf32>
  %h = op.matmul %x, %w : tensor<8x16xf32>, tensor<16x8xf32> -> tensor<8x8xf32>
  %y = op.relu %h : tensor<8x8xf32> -> tensor<8x8xf32>
  job.output "y", %y : tensor<8x8xf32>
}
