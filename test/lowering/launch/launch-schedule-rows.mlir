// RUN: penstock-opt %s --pipeline cpu | filecheck %s --check-prefix=CPU
// RUN: penstock-opt %s --pipeline cuda | filecheck %s --check-prefix=CUDA

// Points of rows are lines of vectors on a CPU, and shared by a warp on a GPU, whose
// threads keep them; long rows have a block. Rows side by side are columns on a CPU; on a
// GPU a block has several of few long ones, as it has sums over points that lie apart.
// Others, short rows and sums of integers have a thread each there: those have loops for
// want of a schedule.
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<64x128xf32>
  // CPU: schedule = #launch.vector_loops<lines>
  // CUDA-DAG: schedule = #launch.rows<warp, threads 32, width 4, kept>
  %a = op.softmax %x : tensor<64x128xf32> -> tensor<64x128xf32>
  // CPU: schedule = #launch.vector_loops<columns>
  // CUDA-DAG: schedule = #launch.rows<grid, threads 256, width 32, kept>
  %b = op.softmax %x axis 0 : tensor<64x128xf32> -> tensor<64x128xf32>
  %w = job.input "w" : tensor<4x8192xf32>
  // CPU: schedule = #launch.vector_loops<lines>
  // CUDA-DAG: schedule = #launch.rows<block, threads 512, width 4, kept>
  %c = op.softmax %w : tensor<4x8192xf32> -> tensor<4x8192xf32>
  %s = job.input "s" : tensor<64x8xf32>
  // CPU: schedule = #launch.vector_loops<lines>
  // CUDA-DAG: plain_loops = ["kernel.row: rows of fewer than 32 elements have a thread each"]
  %d = op.softmax %s : tensor<64x8xf32> -> tensor<64x8xf32>
  // CUDA-DAG: plain_loops = ["kernel.row: rows whose points lie apart have a thread each unless they are few and long"]
  %v = job.input "v" : tensor<4x8192xf32>
  %h = op.softmax %v axis 0 : tensor<4x8192xf32> -> tensor<4x8192xf32>
  %n = job.input "n" : tensor<64x128xi32>
  // CPU: plain_loops = ["kernel.row: neither points of a row nor rows lie so that vectors could load them"]
  // CUDA-DAG: plain_loops = ["kernel.row: integers are folded by a thread"]
  %e = op.reduce_sum %n axes [1] : tensor<64x128xi32> -> tensor<64xi32>
  %y = job.input "y" : tensor<96x32x64xf32>
  // CUDA-DAG: schedule = #launch.rows<grid, threads 256, width 32>
  %f = op.reduce_max %y axes [0] : tensor<96x32x64xf32> -> tensor<32x64xf32>
  %g = op.reduce_sum %y axes [0, 2] : tensor<96x32x64xf32> -> tensor<32xf32>
  // CPU: launch.kernel @reduce_sum_1
  // CPU: schedule = #launch.vector_loops<lines>
  // CPU: launch.kernel @reduce_max_0
  // CPU: schedule = #launch.vector_loops<columns>
  // CUDA-DAG: schedule = #launch.rows<grid, threads 1024, width 1>
  job.output "h", %h : tensor<4x8192xf32>
  job.output "f", %f : tensor<32x64xf32>
  job.output "g", %g : tensor<32xf32>
  job.output "a", %a : tensor<64x128xf32>
  job.output "b", %b : tensor<64x128xf32>
  job.output "c", %c : tensor<4x8192xf32>
  job.output "d", %d : tensor<64x8xf32>
  job.output "e", %e : tensor<64xi32>
}
