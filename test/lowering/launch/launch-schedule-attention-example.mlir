// RUN: penstock-opt %s -p 'launch-schedule-attention{vector-bytes=64}' | filecheck %s --match-full-lines

// The loop over 128 queries is computed as blocks: scores of 6 keys and 4 vectors of 16
// queries in registers, for 132 keys at a time.

!m = memref<128x64xf32>

// EXAMPLE-BEFORE
launch.kernel @attention_0 target "cpu" (%in0: !m, %in1: !m, %in2: !m, %out0: !m) attributes {cost = {bytes = 131072 : i64, flops = 4308992 : i64, op = "op.attention"}} {
// EXAMPLE-SKIP
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  %2 = arith.constant 128 : index
// EXAMPLE-RESUME
  "scf.parallel"(%0, %2, %1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
// EXAMPLE-SKIP
  ^bb0(%3: index):
    %4 = arith.constant 0.000000e+00 : f32
    %5 = arith.constant 1.000000e+00 : f32
    %6 = arith.constant 0xff800000 : f32
    %7 = arith.constant 64 : index
    scf.for %8 = %0 to %7 step %1 {
      memref.store %4, %out0[%3, %8] : !m
    }
// EXAMPLE-RESUME
    %top, %sum = scf.for %11 = %0 to %2 step %1 iter_args(%12 = %6, %13 = %4) -> (f32, f32) {
// EXAMPLE-SKIP
      %14 = scf.for %15 = %0 to %7 step %1 iter_args(%16 = %4) -> (f32) {
        %17 = memref.load %in0[%3, %15] : !m
        %18 = memref.load %in1[%11, %15] : !m
        %19 = arith.mulf %17, %18 : f32
        %20 = arith.addf %16, %19 fastmath<reassoc> : f32
        scf.yield %20 : f32
      }
      %21 = arith.maxnumf %12, %14 : f32
      %22 = arith.cmpf oeq, %21, %6 : f32
      %23 = arith.select %22, %4, %21 : f32
      %24 = arith.subf %12, %23 : f32
      %25 = math.exp %24 : f32
      %26 = arith.subf %14, %23 : f32
      %27 = math.exp %26 : f32
      scf.for %28 = %0 to %7 step %1 {
        %29 = memref.load %out0[%3, %28] : !m
        %30 = memref.load %in2[%11, %28] : !m
        %31 = arith.mulf %29, %25 : f32
        %32 = arith.mulf %30, %27 : f32
        %33 = arith.addf %31, %32 : f32
        memref.store %33, %out0[%3, %28] : !m
      }
      %34 = arith.mulf %13, %25 : f32
      %35 = arith.addf %34, %27 : f32
      scf.yield %21, %35 : f32, f32
    }
    %36 = arith.divf %5, %sum : f32
    scf.for %37 = %0 to %7 step %1 {
      %38 = memref.load %out0[%3, %37] : !m
      %39 = arith.mulf %38, %36 : f32
      memref.store %39, %out0[%3, %37] : !m
    }
    scf.reduce
// EXAMPLE-RESUME
  }) : (index, index, index) -> ()
}
// EXAMPLE-AFTER
// CHECK:      launch.kernel @attention_0 target "cpu" ({{.*}}) {{.*}} {
// CHECK:        "scf.parallel"({{.*}}) <{{.*}}> ({
// CHECK:        }) {schedule = #launch.attention<columns, tile [6, 4, 16], mix [6, 4], keys 132>} : (index, index, index) -> ()
// CHECK-NEXT: }
// EXAMPLE-END
