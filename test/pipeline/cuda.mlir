// RUN: penstock-opt %s --pipeline cuda | filecheck %s
// RUN: penstock-opt %s --pipeline cuda -t numba | filecheck %s --check-prefix SOURCE

// A job of the processor runs on the device: weights and activations lie there, input
// and output in memory that it may copy from and to, and copies in between run on
// streams of their own, two pieces ahead.

!x = tensor<4x8xf32>
!h = tensor<4x2xf32>

// CHECK:      launch.program @net rank 0 attributes {live_bytes = {{.*}}} {
// CHECK-NEXT:   launch.chunk @c0 on <0, pinned cuda:0> size
// CHECK-NEXT:   launch.chunk @c1 on <0, device cuda:0> size
// CHECK-NOT:    launch.chunk
// CHECK:        launch.register @"x/out" in @c0 at
// CHECK-NEXT:   launch.register @"x_cuda/out" in @c1 at {{[0-9]+}} slots 2 : memref<4x8xf32>
// CHECK-NEXT:   launch.variable @w in @c1 at 0 init <he_normal, seed = 7>
// CHECK-NEXT:   launch.variable @b in @c1 at 512 init <zeros>
// CHECK:        launch.register @"r_cpu/out" in @c0 at {{[0-9]+}} slots 2 : memref<4x2xf32>
// CHECK:        launch.kernel @fused_matmul_0 target "cuda"
// CHECK-NOT:      schedule
// CHECK-NOT:    target
// CHECK:        launch.actor @x on <0, cpu:0> stream 0
// CHECK-NEXT:     launch.feed "x" to @"x/out"
// CHECK:        launch.actor @x_cuda on <0, cuda:0> stream 1 reads [@"x/out"] writes [@"x_cuda/out"] {
// CHECK-NEXT:     launch.copy @"x/out" to @"x_cuda/out"
// CHECK:        launch.actor @r on <0, cuda:0> stream 2 reads [@"x_cuda/out"]
// CHECK-NEXT:     launch.call @fused_matmul_0 [@"x_cuda/out", @w, @b, @"r/out"]
// CHECK:        launch.actor @r_cpu on <0, cuda:0> stream 3 reads [@"r/out"]
// CHECK-NEXT:     launch.copy @"r/out" to @"r_cpu/out"
// CHECK:        launch.actor @y on <0, cpu:0> stream 0 reads [@"r_cpu/out"]
// CHECK-NEXT:     launch.fetch "y" from @"r_cpu/out"
// CHECK-NOT:    launch.actor

// SOURCE:      # kernel fused_matmul_0
// SOURCE:      STAGES =
// SOURCE-NOT:  # kernel
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <he_normal, seed = 7> : tensor<8x2xf32>
  %b = job.variable "b" init <zeros> : tensor<2xf32>
  %m = op.matmul %x, %w : !x, tensor<8x2xf32> -> !h
  %s = op.add %m, %b : !h, tensor<2xf32> -> !h
  %r = op.relu %s : !h -> !h
  job.output "y", %r : !h
}
