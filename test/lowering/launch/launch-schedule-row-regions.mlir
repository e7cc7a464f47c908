// RUN: penstock-opt %s --pipeline cpu | filecheck %s --check-prefix=CPU
// RUN: penstock-opt %s --pipeline cuda | filecheck %s --check-prefix=CUDA

// A warp joins folds by a region, also those of long rows; on a CPU they are loops of rows, of
// which the largest element is found in vectors, or columns, which vectors hold.
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x8192xf32>
  // CPU: schedule = #launch.vector_loops<lines>
  // CUDA: schedule = #launch.rows<warp, threads 32, width 4>
  %a = op.arg_max %x axis 1 : tensor<4x8192xf32> -> tensor<4x1xi64>
  // CPU: schedule = #launch.vector_loops<columns>
  // CUDA: plain_loops = ["kernel.row: a thread folds by a region where points lie apart"]
  %b = op.arg_min %x axis 0 : tensor<4x8192xf32> -> tensor<1x8192xi64>
  job.output "a", %a : tensor<4x1xi64>
  job.output "b", %b : tensor<1x8192xi64>
}
