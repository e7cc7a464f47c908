// RUN: penstock-opt %s --pipeline cpu | filecheck %s
// RUN: penstock-opt %s --pipeline cpu -t numba | filecheck %s --check-prefix SOURCE

// A job becomes one program: its input and output at the edges, one kernel for three ops,
// as the addition and the activation are computed with the product, and weights that are
// loaded.

!x = tensor<4x8xf32>
!h = tensor<4x2xf32>

// CHECK:      builtin.module {
// CHECK-NEXT:   launch.program @net rank 0 attributes {live_bytes = {{.*}}} {
// 72 = 64 for the matrix, and 2 x 4 for the vector behind it
// CHECK-NEXT:     launch.chunk @c0 on <0, host> size {{.*}} {memory = {{{.*}}, variables = 72 : i64}}
// CHECK-NOT:      launch.chunk
// CHECK:          launch.register @"x/out" in @c0 at {{[0-9]+}} slots 1 : memref<4x8xf32>
// CHECK-NEXT:     launch.variable @w in @c0 at 0 init <he_normal, seed = 7> : memref<8x2xf32>
// CHECK-NEXT:     launch.variable @b in @c0 at 64 init <zeros> : memref<2xf32>
// CHECK:          launch.kernel @fused_matmul_0 target "cpu" (%{{.*}}: memref<4x8xf32>, %{{.*}}: memref<8x2xf32>, %{{.*}}: memref<2xf32>, %{{.*}}: memref<4x2xf32>)
// CHECK-NEXT:       kernel.contract {{.*}} finish(%{{.*}} : memref<2xf32>) attributes {schedule = #launch.contraction<{{.*}}>}
// CHECK:            arith.addf
// CHECK:            arith.maximumf
// CHECK-NOT:      launch.kernel
// CHECK:          launch.actor @x on <0, cpu:0> stream 0
// CHECK-NEXT:       launch.feed "x" to @"x/out"
// CHECK:          launch.actor @r on <0, cpu:0> stream 0 reads [@"x/out"] writes [@"r/out"] {
// CHECK-NEXT:       launch.call @fused_matmul_0 [@"x/out", @w, @b, @"r/out"]
// CHECK:          launch.actor @y on <0, cpu:0> stream 0 reads [@"r/out"]
// CHECK-NEXT:       launch.fetch "y" from @"r/out"
// CHECK-NOT:      launch.actor

// All kernels are printed, and nothing else.
// SOURCE:      # kernel fused_matmul_0
// SOURCE:      def kernel(args, part, parts):
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
