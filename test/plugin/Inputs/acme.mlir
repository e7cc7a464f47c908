!t = tensor<6x5xf32>

job.job @acme placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %n = acme.row_norm %x : !t -> !t
  %s = acme.swish %n : !t -> !t
  %y = op.relu %s : !t -> !t
  job.output "n", %n : !t
  job.output "y", %y : !t
}
