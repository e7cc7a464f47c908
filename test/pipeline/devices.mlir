// RUN: penstock-opt %s --pipeline cpu | filecheck %s

// A batch in rows, the first weights in columns and the second ones in rows, on four
// devices of one process: all of it becomes one program.

// CHECK-LABEL: launch.program @mesh rank 0

// Each device has its part of the weights, under the name of the whole.
// CHECK-DAG: launch.variable @"w@0.cpu.0" port "w" {{.*}} part [0, 0] of [6, 8] : memref<6x4xf32>
// CHECK-DAG: launch.variable @"w@0.cpu.3" port "w" {{.*}} part [0, 4] of [6, 8] : memref<6x4xf32>
// CHECK-DAG: launch.variable @"v@0.cpu.1" port "v" {{.*}} part [4, 0] of [8, 4] : memref<4x4xf32>

// Equal parts share their kernels; 5 rows are 3 and 2.
// CHECK-DAG: launch.kernel @[[LONG:matmul_.+]] target "cpu" (%{{.+}}: memref<3x6xf32>, %{{.+}}: memref<6x4xf32>, %{{.+}}: memref<3x4xf32>)
// CHECK-DAG: launch.kernel @[[SHORT:matmul_.+]] target "cpu" (%{{.+}}: memref<2x6xf32>, %{{.+}}: memref<6x4xf32>, %{{.+}}: memref<2x4xf32>)

// Each device has a stream of its own.
// CHECK-DAG: launch.actor @"h@0.cpu.1" on <0, cpu:1> stream [[ONE:[0-9]+]]
// CHECK-DAG: launch.actor @"h@0.cpu.3" on <0, cpu:3> stream [[THREE:[0-9]+]]
// CHECK-DAG: launch.call @[[LONG]] [@{{.+}}, @"w@0.cpu.1", @"h@0.cpu.1/out"]
// CHECK-DAG: launch.call @[[SHORT]] [@{{.+}}, @"w@0.cpu.3", @"h@0.cpu.3/out"]

// CHECK-DAG: launch.fetch "y" from @{{.+}}

job.job @mesh placement <cpu, [0:0-3], hierarchy = [2, 2]> {
  %x = job.input "x" {sbp = #job.sbp<S(0), B>} : tensor<5x6xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 1> {sbp = #job.sbp<B, S(1)>} : tensor<6x8xf32>
  %v = job.variable "v" init <xavier_uniform, seed = 2> {sbp = #job.sbp<B, S(0)>} : tensor<8x4xf32>
  %h = op.matmul %x, %w : tensor<5x6xf32>, tensor<6x8xf32> -> tensor<5x8xf32>
  %r = op.relu %h : tensor<5x8xf32> -> tensor<5x8xf32>
  %y = op.matmul %r, %v : tensor<5x8xf32>, tensor<8x4xf32> -> tensor<5x4xf32>
  job.output "y", %y : tensor<5x4xf32>
}
