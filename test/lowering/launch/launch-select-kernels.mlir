// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64}' | filecheck %s
// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64 refusals=true}' | filecheck %s --check-prefix=REFUSED
// RUN: penstock-opt %s -p 'launch-schedule-contractions{vector-bytes=64}' | grep schedule > %t.rules
// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64},launch-schedule-contractions{vector-bytes=64}' | grep schedule | diff %t.rules -
// RUN: python %S/../Inputs/plant_times.py %s %t.db 'product: rules' 900 'product: loops' 600 'product: tiles <outer, tile [6, 4, 16], block [66, 64]>' 500 'near: rules' 100 'near: loops' 99 'lonely: loops' 70
// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64 database="%t.db"},launch-schedule-contractions{vector-bytes=64}' | filecheck %s --check-prefix=MEASURED
// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64 database="%t.db"},launch-select-kernels{vector-bytes=64}' | grep 500
// RUN: penstock-opt %s -p 'launch-select-kernels{vector-bytes=64 parts=2 database="%t.db"}' | filecheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#o = affine_map<(m, n, k) -> (m, n)>

// Without measurements the rules are taken, and nothing is changed. The schedules are
// those that the rules give without this pass.
// CHECK-LABEL: launch.kernel @product
// CHECK-SAME:  selected = "rules: priority 0, tiles has -10"
// CHECK-NEXT:  kernel.contract {{.*}} start(%o : memref<64x64xf32>){{$}}
//
// What is fastest by measurement is taken, under any name of the kernel and its values,
// here a schedule.
// MEASURED-LABEL: launch.kernel @product
// MEASURED-SAME:  selected = "tiles <outer, tile [6, 4, 16], block [66, 64]>: 500 ns measured, rules 900 ns"
// MEASURED-NEXT:  kernel.contract {{.*}}schedule = #launch.contraction<outer, tile [6, 4, 16], block [66, 64]>}
launch.kernel @product target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) start(%o : memref<64x64xf32>)
}
// MEASURED-LABEL: launch.kernel @renamed
// MEASURED-SAME:  selected = "tiles <outer,
launch.kernel @renamed target "cpu" (%x: memref<64x64xf32>, %y: memref<64x64xf32>, %z: memref<64x64xf32>) attributes {cost = {bytes = 1, flops = 2, op = "op.matmul"}} {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%x, %y : memref<64x64xf32>, memref<64x64xf32>) outs(%z : memref<64x64xf32>) start(%z : memref<64x64xf32>)
}

// Other operands are another kernel, of which nothing was measured.
// MEASURED-LABEL: launch.kernel @swapped
// MEASURED-SAME:  selected = "rules: priority 0, tiles has -10"
launch.kernel @swapped target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%b, %a : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) start(%o : memref<64x64xf32>)
}

// 1 % faster than the rules is no reason.
// MEASURED-LABEL: launch.kernel @near
// MEASURED-SAME:  selected = "rules: 100 ns measured, loops 99 ns, which is not worth it"
launch.kernel @near target "cpu" (%a: memref<8x8xf32>, %b: memref<8x8xf32>, %o: memref<8x8xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : memref<8x8xf32>, memref<8x8xf32>) outs(%o : memref<8x8xf32>) start(%o : memref<8x8xf32>)
}

// What alone was measured is taken. Loops stay without a schedule, and say so.
// MEASURED-LABEL: launch.kernel @lonely
// MEASURED-SAME:  selected = "loops: 70 ns measured, nothing else was"
// MEASURED-NEXT:  kernel.contract {{.*}}no_schedule = "plain loops were selected"}
launch.kernel @lonely target "cpu" (%a: memref<4x4xf32>, %b: memref<4x4xf32>, %o: memref<4x4xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : memref<4x4xf32>, memref<4x4xf32>) outs(%o : memref<4x4xf32>) start(%o : memref<4x4xf32>)
}

// Whoever refuses a kernel says why: there is nothing to choose without exactly one sum
// of products, or where it has a schedule.
// REFUSED-LABEL: launch.kernel @fill
// REFUSED-SAME:  selected = "rules: nothing else is offered"
// REFUSED-SAME:  refused = ["cublas: is for cuda", "cudnn: is for cuda", "loops: it has 0 sums of products, not one", "tiles: it has 0 sums of products, not one"]
launch.kernel @fill target "cpu" (%o: memref<64x64xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<64x64xf32>)
}
// REFUSED-LABEL: launch.kernel @by_hand
// REFUSED-SAME:  refused = ["cublas: is for cuda", "cudnn: is for cuda", "loops: it has a schedule already", "tiles: it has a schedule already"]
launch.kernel @by_hand target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) start(%o : memref<64x64xf32>) attributes {schedule = #launch.contraction<outer, tile [2, 2, 16], block [64, 64]>}
}
// REFUSED-LABEL: launch.kernel @declined
// REFUSED-SAME:  refused = ["cublas: is for cuda", "cudnn: is for cuda", "loops: it says that it has no schedule", "tiles: it says that it has no schedule"]
launch.kernel @declined target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) start(%o : memref<64x64xf32>) attributes {no_schedule = "by hand"}
}
// REFUSED-LABEL: launch.kernel @stored
// REFUSED-SAME:  refused = ["cublas: is for cuda", "cudnn: is for cuda", "loops: its arguments lie in panels already", "tiles: its arguments lie in panels already"]
launch.kernel @stored target "cpu" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %o: memref<64x64xf32>) attributes {panels = [unit, #launch.panels<[1, 64, 64], axis 2, width 64, depth 64>, unit]} {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%o : memref<64x64xf32>) start(%o : memref<64x64xf32>) attributes {schedule = #launch.contraction<outer, tile [6, 4, 16], block [66, 64], panels b>}
}
// Many products are too many for plain loops.
// REFUSED-LABEL: launch.kernel @large
// REFUSED-SAME:  refused = ["cublas: is for cuda", "cudnn: is for cuda", "loops: 2097152 products are too many for plain loops"]
launch.kernel @large target "cpu" (%a: memref<128x128xf32>, %b: memref<128x128xf32>, %o: memref<128x128xf32>) {
  kernel.contract indexing_maps = [#a, #b, #o, #o] ins(%a, %b : memref<128x128xf32>, memref<128x128xf32>) outs(%o : memref<128x128xf32>) start(%o : memref<128x128xf32>)
}
// On a GPU there are neither other tiles nor plain loops.
// REFUSED-LABEL: launch.kernel @on_gpu
// REFUSED-SAME:  refused = ["cublas: it has 0 sums of products, not one", "cudnn: it has 0 sums of products, not one", "loops: is for cpu", "tiles: is for cpu"]
launch.kernel @on_gpu target "cuda" (%o: memref<64xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<64xf32>)
}

// What was selected before is left alone.
// CHECK-LABEL: launch.kernel @kept
// CHECK-SAME:  selected = "mine: by hand"
launch.kernel @kept target "cpu" (%o: memref<64xf32>) attributes {selected = "mine: by hand"} {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<64xf32>)
}
