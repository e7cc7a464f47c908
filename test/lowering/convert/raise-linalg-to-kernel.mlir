// RUN: penstock-opt %s -p raise-linalg-to-kernel | filecheck %s
// RUN: penstock-opt %s -p raise-linalg-to-kernel,raise-linalg-to-kernel | filecheck %s

// What nothing starts adds to what is there.
// CHECK-LABEL: launch.kernel @adds
// CHECK-NEXT: kernel.contract {{.*}} start(%y : memref<4x6xf32>)
// CHECK-NEXT: }
launch.kernel @adds target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
}

// Sums start from a bias, or from a number.
// CHECK-LABEL: launch.kernel @starts
// CHECK-NEXT: kernel.contract {{.*}}, affine_map<(d0, d1, d2) -> (d1)>] ins({{.*}} start(%c : memref<6xf32>)
// CHECK-NEXT: }
launch.kernel @starts target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>, %c: memref<6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%c : memref<6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%d: f32, %s: f32):
    linalg.yield %d : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
}

// CHECK-LABEL: launch.kernel @number
// CHECK-NEXT: %z = arith.constant 2.0
// CHECK-NEXT: kernel.contract {{.*}}, affine_map<(d0, d1, d2) -> ()>] ins({{.*}} start(%z : f32)
// CHECK-NEXT: }
launch.kernel @number target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>) {
  %z = arith.constant 2.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<4x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
}

// Numbers that are computed before are added last.
// CHECK-LABEL: launch.kernel @computed
// CHECK-NEXT: kernel.contract {{.*}} finish(%c : memref<6xf32>) {
// CHECK: %[[SCALED:.+]] = arith.mulf
// CHECK-NEXT: arith.addf %[[SCALED]], %
launch.kernel @computed target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>, %c: memref<6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%c : memref<6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%d: f32, %s: f32):
    %2 = arith.constant 0.5 : f32
    %3 = arith.mulf %d, %2 : f32
    linalg.yield %3 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
}

// Named ops are sums of products, too.
// CHECK-LABEL: launch.kernel @named
// CHECK-NEXT: kernel.contract
// CHECK-NEXT: }
launch.kernel @named target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<4x6xf32>)
  linalg.matmul ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
}

// Sums of halves are not rounded before they are finished; bytes may have no sign.
// CHECK-LABEL: launch.kernel @halves
// CHECK: kernel.contract {{.*}} finish(%c : memref<6xf16>) {
// CHECK-NEXT: ^bb0(%[[SUM:.+]]: f32, %[[C:.+]]: f16):
// CHECK-NEXT:   %[[E:.+]] = arith.extf %[[C]] : f16 to f32
// CHECK-NEXT:   %[[R:.+]] = arith.addf %[[SUM]], %[[E]] : f32
// CHECK-NEXT:   %[[T:.+]] = arith.truncf %[[R]] : f32 to f16
// CHECK-NEXT:   kernel.yield %[[T]] : f16
launch.kernel @halves target "cuda" (%a: memref<4x8xf16>, %b: memref<8x6xf16>, %y: memref<4x6xf16>, %c: memref<6xf16>) {
  %z = arith.constant 0.0 : f16
  linalg.fill ins(%z : f16) outs(%y : memref<4x6xf16>)
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf16>, memref<8x6xf16>) outs(%y : memref<4x6xf16>) {
  ^bb0(%l: f16, %r: f16, %s: f16):
    %e = arith.extf %l : f16 to f32
    %f = arith.extf %r : f16 to f32
    %g = arith.extf %s : f16 to f32
    %0 = arith.mulf %e, %f : f32
    %1 = arith.addf %g, %0 : f32
    %2 = arith.truncf %1 : f32 to f16
    linalg.yield %2 : f16
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%c : memref<6xf16>) outs(%y : memref<4x6xf16>) {
  ^bb0(%d: f16, %s: f16):
    %e = arith.extf %d : f16 to f32
    %g = arith.extf %s : f16 to f32
    %1 = arith.addf %g, %e : f32
    %2 = arith.truncf %1 : f32 to f16
    linalg.yield %2 : f16
  }
}

// CHECK-LABEL: launch.kernel @bytes
// CHECK: kernel.contract {{.*}} unsigned_b ins(
launch.kernel @bytes target "cpu" (%a: memref<4x8xi8>, %b: memref<8x6xi8>, %y: memref<4x6xi32>) {
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xi8>, memref<8x6xi8>) outs(%y : memref<4x6xi32>) {
  ^bb0(%l: i8, %r: i8, %s: i32):
    %e = arith.extsi %l : i8 to i32
    %f = arith.extui %r : i8 to i32
    %0 = arith.muli %e, %f : i32
    %1 = arith.addi %s, %0 : i32
    linalg.yield %1 : i32
  }
}

// A finish on a view of the result: two loops of the sums are one of its dimensions.
// CHECK-LABEL: launch.kernel @viewed
// CHECK: kernel.contract {{.*}}, affine_map<(d0, d1, d2, d3) -> (((d0 * 3) + d1))>] {{.*}} finish(%c : memref<6xf32>)
launch.kernel @viewed target "cpu" (%a: memref<2x3x8xf32>, %b: memref<2x8x5xf32>, %y: memref<6x5xf32>, %c: memref<6xf32>) {
  %v = memref.expand_shape %y [[0, 1], [2]] output_shape [2, 3, 5] : memref<6x5xf32> into memref<2x3x5xf32>
  linalg.generic {indexing_maps = [affine_map<(g, m, n, k) -> (g, m, k)>, affine_map<(g, m, n, k) -> (g, k, n)>, affine_map<(g, m, n, k) -> (g, m, n)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%a, %b : memref<2x3x8xf32>, memref<2x8x5xf32>) outs(%v : memref<2x3x5xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%c : memref<6xf32>) outs(%y : memref<6x5xf32>) {
  ^bb0(%d: f32, %s: f32):
    %1 = arith.addf %s, %d : f32
    linalg.yield %1 : f32
  }
}

// What reads the result transposed, overwrites it, or has no loops of the sums stays.
// CHECK-LABEL: launch.kernel @stays
// CHECK-NEXT: kernel.contract
// CHECK-NEXT: linalg.generic
launch.kernel @stays target "cpu" (%a: memref<4x8xf32>, %b: memref<8x4xf32>, %y: memref<4x4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<4x8xf32>, memref<8x4xf32>) outs(%y : memref<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%y : memref<4x4xf32>) outs(%y : memref<4x4xf32>) {
  ^bb0(%d: f32, %s: f32):
    linalg.yield %d : f32
  }
}

// Products that go to a part of the result alone stay as they are.
// CHECK-LABEL: launch.kernel @part
// CHECK: linalg.fill
// CHECK-NEXT: linalg.generic {{.*}} attrs = {no_raise = "some elements of the result are no sums"}
launch.kernel @part target "cpu" (%a: memref<2x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<4x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m * 2, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%a, %b : memref<2x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
}

// A schedule goes on to the contraction, with the start and the finish around it.
// CHECK-LABEL: launch.kernel @scheduled
// CHECK-NEXT: kernel.contract {{.*}} outs(%y : memref<4x6xf32>) attributes {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 8]>} {
// CHECK-NEXT: ^bb0(%[[S:.+]]: f32):
// CHECK-NEXT:   %[[N:.+]] = arith.negf %[[S]] : f32
// CHECK-NEXT:   kernel.yield %[[N]] : f32
// CHECK-NEXT: }
// CHECK-NEXT: }
launch.kernel @scheduled target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<4x6xf32>)
  linalg.matmul {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 8]>} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%y : memref<4x6xf32>) {
  ^bb0(%s: f32):
    %0 = arith.negf %s : f32
    linalg.yield %0 : f32
  }
}

// What a schedule does not compute is left to stages around the contraction.
// CHECK-LABEL: launch.kernel @library
// CHECK-NEXT: linalg.generic {{.*}} ins(%c : memref<6xf32>) outs(%y : memref<4x6xf32>)
// CHECK: kernel.contract {{.*}} start(%y : memref<4x6xf32>) attributes {schedule = #launch.library<"cublas">, no_finish = "start: a library starts at zero; finish: a library stores sums"}
// CHECK-NEXT: linalg.generic {{.*}} outs(%y : memref<4x6xf32>)
launch.kernel @library target "cuda" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>, %c: memref<6xf32>) {
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%c : memref<6xf32>) outs(%y : memref<4x6xf32>) {
  ^bb0(%d: f32, %s: f32):
    linalg.yield %d : f32
  }
  linalg.matmul {schedule = #launch.library<"cublas">} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%y : memref<4x6xf32>) {
  ^bb0(%s: f32):
    %0 = arith.negf %s : f32
    linalg.yield %0 : f32
  }
}
// CHECK-LABEL: launch.kernel @doubles
// CHECK-NEXT: kernel.contract {{.*}} attributes {schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>, no_finish = "finish: its ops have no vectors of f32"}
// CHECK-NEXT: linalg.generic
launch.kernel @doubles target "cuda" (%a: memref<64x64xf32>, %b: memref<64x64xf32>, %y: memref<64x64xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%y : memref<64x64xf32>)
  linalg.matmul {schedule = #launch.tiles<block [64, 64, 8], thread [8, 8]>} ins(%a, %b : memref<64x64xf32>, memref<64x64xf32>) outs(%y : memref<64x64xf32>)
  linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%y : memref<64x64xf32>) {
  ^bb0(%s: f32):
    %0 = arith.extf %s : f32 to f64
    %1 = math.floor %0 : f64
    %2 = arith.truncf %1 : f64 to f32
    linalg.yield %2 : f32
  }
}

// An op without a schedule may say why: it stays as it is.
// CHECK-LABEL: launch.kernel @declined
// CHECK-NEXT: linalg.matmul {no_schedule = "by hand"}
launch.kernel @declined target "cpu" (%a: memref<4x8xf32>, %b: memref<8x6xf32>, %y: memref<4x6xf32>) {
  linalg.matmul {no_schedule = "by hand"} ins(%a, %b : memref<4x8xf32>, memref<8x6xf32>) outs(%y : memref<4x6xf32>)
}

// An op with the schedule of a contraction says why it is none.
// CHECK-LABEL: launch.kernel @zeros
// CHECK: linalg.fill {schedule = {{.*}}, no_raise = "it is no sum of products"}
launch.kernel @zeros target "cpu" (%y: memref<4x6xf32>) {
  %z = arith.constant 0.0 : f32
  linalg.fill {schedule = #launch.contraction<outer, tile [4, 1, 16], block [4, 8]>} ins(%z : f32) outs(%y : memref<4x6xf32>)
}

// So does another sum of products.
// CHECK-LABEL: launch.kernel @refused
// CHECK: linalg.generic {{.*}} attrs = {no_raise = "there is no loop of terms"}
// CHECK: linalg.generic {{.*}} attrs = {no_raise = "loop 0 is of one operand only"}
// CHECK: linalg.generic {{.*}} attrs = {no_raise = "the result is one of the factors"}
launch.kernel @refused target "cpu" (%a: memref<4xf32>, %b: memref<4xf32>, %y: memref<4x4xf32>, %w: memref<4xf32>) {
  linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (m, n)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : memref<4xf32>, memref<4xf32>) outs(%y : memref<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, n) -> (m)>, affine_map<(m, n) -> (n)>, affine_map<(m, n) -> (n)>], iterator_types = ["reduction", "parallel"]} ins(%a, %b : memref<4xf32>, memref<4xf32>) outs(%w : memref<4xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
  linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k)>, affine_map<(m, n, k) -> (m, n)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%y, %b : memref<4x4xf32>, memref<4xf32>) outs(%y : memref<4x4xf32>) {
  ^bb0(%l: f32, %r: f32, %s: f32):
    %0 = arith.mulf %l, %r : f32
    %1 = arith.addf %s, %0 : f32
    linalg.yield %1 : f32
  }
}

// Loops that an op became for want of a schedule stay loops, so that a dump ends as it did.
// CHECK-LABEL: launch.kernel @became_loops
// CHECK-NEXT: linalg.matmul
launch.kernel @became_loops target "cpu" (%a: memref<4x4xf32>, %b: memref<4x4xf32>, %y: memref<4x4xf32>) attributes {plain_loops = ["kernel.contract: by hand"]} {
  linalg.matmul ins(%a, %b : memref<4x4xf32>, memref<4x4xf32>) outs(%y : memref<4x4xf32>)
}
