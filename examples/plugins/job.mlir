// The job of the pages about plug-ins.
job.job @small placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x16xf32>
  %a = op.neg %x : tensor<8x16xf32> -> tensor<8x16xf32>
  %b = op.neg %a : tensor<8x16xf32> -> tensor<8x16xf32>
  %s = op.softmax %b : tensor<8x16xf32> -> tensor<8x16xf32>
  job.output "y", %s : tensor<8x16xf32>
}
