// RUN: penstock-opt %s -p 'op-infer-shapes,job-clean,op-split-pads{device=cpu vector-bytes=64},job-clean,job-place,op-fuse-epilogues,job-clean,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,convert-plan-to-launch,canonicalize,cse,raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64},convert-kernel-to-loops{only-unscheduled=true}' --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'op-infer-shapes,job-clean,op-split-pads{device=cpu vector-bytes=32},job-clean,job-place,op-fuse-epilogues,job-clean,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,convert-plan-to-launch,canonicalize,cse,raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=32},convert-kernel-to-loops{only-unscheduled=true}' --split-input-file | filecheck %s
// RUN: penstock-opt %s -p 'op-infer-shapes,job-clean,op-split-pads{device=cpu vector-bytes=64},job-clean,job-place,op-fuse-epilogues,job-clean,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,convert-plan-to-launch,canonicalize,cse,raise-linalg-to-kernel,launch-schedule-contractions{vector-bytes=64},convert-kernel-to-loops{only-unscheduled=true}' --split-input-file -t numba | filecheck %s --check-prefix=SOURCE

// A convolution of channels on their own keeps its pads. Vectors are no longer than its lines of 7, the tiles of 14 lines are even.
// CHECK-LABEL: launch.kernel
// CHECK:         %[[X:.+]] = kernel.padded %in0 low [0, 0, 1, 1] high [0, 0, 1, 1]
// CHECK:         kernel.contract {{.*}} ins(%[[X]], %{{.+}} : memref<2x4x30x15xf32>, memref<4x2x3x3xf32>) outs({{.*}}) start({{.*}}) attributes {schedule = #launch.windows<lanes {{8|4}}, lines 7>}

// SOURCE:      from penstock.runtime.kernels.cpu.depthwise import depthwise_micro_kernel
// SOURCE:      ROW = ["in0", "in1", "in2", "out0", 16, 2, 8]
// SOURCE:      micro_kernel_0 = depthwise_micro_kernel("f32", {{8|4}}, (7, 1), image=(28, 13), result=(14, 7), taps=(3, 3), strides=(2, 2), before=(1, 1), dilations=(1, 1), bias=True)
// SOURCE:          for [[UNIT:i[0-9]+]] in range(n0):
// SOURCE-NEXT:         micro_kernel_0([[X:v[0-9]+]] + [[UNIT]] // n1 * 1456, [[W:v[0-9]+]] + [[UNIT]] % n2 * 36, [[B:v[0-9]+]] + [[UNIT]] % n2 * 4, [[O:v[0-9]+]] + [[UNIT]] * 392)
job.job @depthwise placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x4x28x13xf32>
  %w = job.variable "w" init <ones> : tensor<8x1x3x3xf32>
  %b = job.variable "b" init <ones> : tensor<8xf32>
  %y = op.conv2d %x, %w, %b strides [2, 2] pads [1, 1, 1, 1] groups 4 : tensor<2x4x28x13xf32>, tensor<8x1x3x3xf32>, tensor<8xf32> -> tensor<2x8x14x7xf32>
  job.output "y", %y : tensor<2x8x14x7xf32>
}

// -----

// The largest elements of windows are looked for so, too. Vectors run on from line to line.
// CHECK-LABEL: launch.program @pool
// CHECK:         kernel.pool max window [3, 2] strides [2, 2] pads [0, 1, 0, 0] dims [2, 3] {{.*}} attributes {schedule = #launch.windows<lanes {{16|8|4}}, lines 14>}

// SOURCE:      from penstock.runtime.kernels.cpu.pooling import pooling_micro_kernel
// SOURCE:      micro_kernel_0 = pooling_micro_kernel("f32", {{16|8|4}}, (14, 7), image=(28, 13), result=(14, 7), taps=(3, 2), strides=(2, 2), before=(0, 1), dilations=(1, 1))
// SOURCE:          micro_kernel_0({{v[0-9]+}}, {{v[0-9]+}}, 0, n0)
job.job @pool placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x4x28x13xf32>
  %y = op.max_pool2d %x kernel [3, 2] strides [2, 2] pads [0, 1, 0, 0] ceil_mode : tensor<2x4x28x13xf32> -> tensor<2x4x14x7xf32>
  job.output "y", %y : tensor<2x4x14x7xf32>
}

// -----

// Zeros around an image may count for a mean. Here they do, but for a line behind them, by which
// the last windows stick out.
// CHECK-LABEL: launch.program @mean
// CHECK:         kernel.pool mean window [4, 2] strides [2, 2] pads [1, 0, 0, 1] counted dims [2, 3] {{.*}} attributes {schedule = #launch.windows<lanes {{8|4|2}}, lines 3>}

// SOURCE:      micro_kernel_0 = pooling_micro_kernel("f64", {{8|4|2}}, (3, 5), image=(6, 9), result=(3, 5), taps=(4, 2), strides=(2, 2), before=(1, 0), dilations=(1, 1), counted=(1, 0, 0, 1))
// SOURCE:          micro_kernel_0({{v[0-9]+}}, {{v[0-9]+}}, 0, n0)
job.job @mean placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x3x6x9xf64>
  %y = op.average_pool2d %x kernel [4, 2] strides [2, 2] pads [1, 0, 0, 1] ceil_mode count_include_pad : tensor<2x3x6x9xf64> -> tensor<2x3x3x5xf64>
  job.output "y", %y : tensor<2x3x3x5xf64>
}

// -----

// Integers stay loops, and so do windows that are so far apart that a tile would be large.
// CHECK-LABEL: launch.program @loops
// CHECK-DAG:     plain_loops = ["kernel.pool: windows of i32 are not computed in vectors"]
// CHECK-DAG:     plain_loops = ["kernel.pool: a line of windows of 2 x 2 taps, 7 apart, is too much for a tile"]
job.job @loops placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x2x16x16xi32>
  %f = job.input "f" : tensor<1x2x4x999xf32>
  %y = op.max_pool2d %x kernel [3, 3] : tensor<1x2x16x16xi32> -> tensor<1x2x14x14xi32>
  %g = op.average_pool2d %f kernel [2, 2] strides [1, 7] : tensor<1x2x4x999xf32> -> tensor<1x2x3x143xf32>
  job.output "y", %y : tensor<1x2x14x14xi32>
  job.output "g", %g : tensor<1x2x3x143xf32>
}

// -----

// Nothing is computed for no images, so that there is no tile of it.
// CHECK-LABEL: launch.program @pool_of_nothing
// CHECK:         launch.kernel {{.*}} plain_loops = ["kernel.pool: there are no windows"]
// CHECK-NOT:     #launch.windows
job.job @pool_of_nothing placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<0x3x7x5xf32>
  %y = op.max_pool2d %x kernel [3, 2] strides [2, 1] pads [1, 0, 0, 0] : tensor<0x3x7x5xf32> -> tensor<0x3x3x4xf32>
  job.output "y", %y : tensor<0x3x3x4xf32>
}

// -----

// One that is written in linalg is raised, and its finish is a stage of its own. The images are
// the second factor here, and have no dimension for their number.
#w = affine_map<(g, y, x, i, j) -> (g, i, j)>
#x = affine_map<(g, y, x, i, j) -> (g, y + i, x + j)>
#y = affine_map<(g, y, x, i, j) -> (g, y, x)>
#id = affine_map<(g, y, x) -> (g, y, x)>
// CHECK-LABEL: launch.kernel @written
// CHECK:         kernel.contract {{.*}} ins(%w, %x : memref<2x3x3xf32>, memref<2x6x9xf32>) outs(%y : memref<2x4x7xf32>) attributes {no_finish = "finish: windows are multiplied without a finish", schedule = #launch.windows<lanes {{8|4}}, lines 4>}
// CHECK:         linalg.generic
// CHECK:           arith.negf
launch.program @p rank 0 {
  launch.kernel @written target "cpu" (%w: memref<2x3x3xf32>, %x: memref<2x6x9xf32>, %y: memref<2x4x7xf32>) {
    %0 = arith.constant 0.0 : f32
    linalg.fill ins(%0 : f32) outs(%y : memref<2x4x7xf32>)
    linalg.generic {indexing_maps = [#w, #x, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%w, %x : memref<2x3x3xf32>, memref<2x6x9xf32>) outs(%y : memref<2x4x7xf32>) {
    ^bb0(%a: f32, %b: f32, %s: f32):
      %1 = arith.mulf %a, %b : f32
      %2 = arith.addf %s, %1 : f32
      linalg.yield %2 : f32
    }
    linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel", "parallel"]} outs(%y : memref<2x4x7xf32>) {
    ^bb0(%s: f32):
      %1 = arith.negf %s : f32
      linalg.yield %1 : f32
    }
  }
}
