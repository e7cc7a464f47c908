// RUN: penstock-opt %s -p 'op-fuse-attention,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-plan-memory,convert-plan-to-launch,canonicalize,cse,launch-schedule-attention{vector-bytes=64}' | filecheck %s
// RUN: penstock-opt %s -p 'op-fuse-attention,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-plan-memory,convert-plan-to-launch,canonicalize,cse,launch-schedule-attention{vector-bytes=64},launch-schedule-attention{vector-bytes=16}' | filecheck %s
// RUN: penstock-opt %s -p 'op-fuse-attention,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-plan-memory,convert-plan-to-launch,canonicalize,cse,launch-schedule-attention{vector-bytes=32}' | filecheck %s --check-prefix=NARROW
// RUN: penstock-opt %s -p 'op-fuse-attention,convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-plan-memory,convert-plan-to-launch,canonicalize,cse' | filecheck %s --check-prefix=PLAIN
// RUN: not penstock-opt %s -p 'launch-schedule-attention{vector-bytes=48}' 2>&1 | filecheck %s --check-prefix=ODD

// ODD: launch-schedule-attention: vectors have 16, 32, 64 bytes, got 48

// What says why it has no schedule keeps that.
// CHECK-LABEL: launch.kernel @kept
// CHECK:       kernel.attention {{.*}} attributes {no_schedule = "by hand"}
launch.kernel @kept target "cpu" (%q: memref<16x16xf32>, %o: memref<16x16xf32>) {
  kernel.attention indexing_maps = [affine_map<(r, k, t, c) -> (r, t)>, affine_map<(r, k, t, c) -> (k, t)>, affine_map<(r, k, t, c) -> (k, c)>, affine_map<(r, k, t, c) -> (r, c)>]
    ins(%q, %q, %q : memref<16x16xf32>, memref<16x16xf32>, memref<16x16xf32>) outs(%o : memref<16x16xf32>) attributes {no_schedule = "by hand"} {
  ^bb0(%s: f32):
    kernel.yield %s : f32
  }
}

// Of 128 queries two blocks are made of 4 vectors each, of 128 keys one block of whole
// tiles; 64 rows of 4 vectors are 10 tiles and 4 rows. Short vectors leave 16 registers.
// CHECK-LABEL:  launch.program @blocks
// CHECK:        schedule = #launch.attention<columns, tile [6, 4, 16], mix [6, 4], keys 132>
// NARROW-LABEL: launch.program @blocks
// NARROW:       schedule = #launch.attention<columns, tile [6, 2, 8], mix [6, 2], keys 132>
// PLAIN-LABEL:  launch.program @blocks
// PLAIN-NOT:    schedule
job.job @blocks placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<12x128x64xf32>
  %k = job.input "k" : tensor<12x128x64xf32>
  %v = job.input "v" : tensor<12x128x64xf32>
  %y = op.attention %q, %k, %v : tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32> -> tensor<12x128x64xf32>
  job.output "y", %y : tensor<12x128x64xf32>
}

// 1024 keys are 8 blocks of 128, and of whole tiles.
// CHECK-LABEL: launch.program @long
// CHECK:       schedule = #launch.attention<columns, tile [6, 4, 16], mix [6, 4], keys 132>
job.job @long placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<1024x64xf32>
  %k = job.input "k" : tensor<1024x64xf32>
  %v = job.input "v" : tensor<1024x64xf32>
  %y = op.attention %q, %k, %v : tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32> -> tensor<1024x64xf32>
  job.output "y", %y : tensor<1024x64xf32>
}

// Under a mask for each score, blocks have a multiple of 6 and 16 keys.
// CHECK-LABEL: launch.program @masked
// CHECK:       schedule = #launch.attention<columns, tile [6, 4, 16], mix [6, 4], keys 144>
job.job @masked placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<1024x64xf32>
  %k = job.input "k" : tensor<1024x64xf32>
  %v = job.input "v" : tensor<1024x64xf32>
  %m = job.input "m" : tensor<1024x1024xf32>
  %y = op.attention %q, %k, %v mask %m : tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32> mask tensor<1024x1024xf32> -> tensor<1024x64xf32>
  job.output "y", %y : tensor<1024x64xf32>
}

// Not so under one for each key.
// CHECK-LABEL: launch.program @keys
// CHECK:       schedule = #launch.attention<columns, tile [6, 4, 16], mix [6, 4], keys 132>
job.job @keys placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<1024x64xf32>
  %k = job.input "k" : tensor<1024x64xf32>
  %v = job.input "v" : tensor<1024x64xf32>
  %m = job.input "m" : tensor<1024xf32>
  %y = op.attention %q, %k, %v mask %m : tensor<1024x64xf32>, tensor<1024x64xf32>, tensor<1024x64xf32> mask tensor<1024xf32> -> tensor<1024x64xf32>
  job.output "y", %y : tensor<1024x64xf32>
}

// 20 queries are 2 vectors, and three tiles of 7 rows of the result at most.
// CHECK-LABEL: launch.program @few
// CHECK:       schedule = #launch.attention<columns, tile [14, 2, 16], mix [7, 1], keys 42>
job.job @few placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<20x16xf32>
  %k = job.input "k" : tensor<40x16xf32>
  %v = job.input "v" : tensor<40x16xf32>
  %y = op.attention %q, %k, %v : tensor<20x16xf32>, tensor<40x16xf32>, tensor<40x16xf32> -> tensor<20x16xf32>
  job.output "y", %y : tensor<20x16xf32>
}

// Panels of 64 queries of 960 terms leave room on the stack for 60 keys:
// 256 KiB / (64 * 4) bytes - 960 - 4.
// CHECK-LABEL: launch.program @fewer_keys
// CHECK:       schedule = #launch.attention<columns, tile [6, 4, 16], mix [6, 4], keys 54>
job.job @fewer_keys placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<64x960xf32>
  %k = job.input "k" : tensor<200x960xf32>
  %v = job.input "v" : tensor<200x64xf32>
  %y = op.attention %q, %k, %v : tensor<64x960xf32>, tensor<200x960xf32>, tensor<200x64xf32> -> tensor<64x64xf32>
  job.output "y", %y : tensor<64x64xf32>
}

// Of 1200 terms there is room for three vectors of queries, and of keys for 160.
// CHECK-LABEL: launch.program @fewer_vectors
// CHECK:       schedule = #launch.attention<columns, tile [9, 3, 16], mix [6, 4], keys 108>
job.job @fewer_vectors placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<64x1200xf32>
  %k = job.input "k" : tensor<200x1200xf32>
  %v = job.input "v" : tensor<200x64xf32>
  %y = op.attention %q, %k, %v : tensor<64x1200xf32>, tensor<200x1200xf32>, tensor<200x64xf32> -> tensor<64x64xf32>
  job.output "y", %y : tensor<64x64xf32>
}

// Blocks are the same where a row does not see all keys.
// CHECK-LABEL: launch.program @causal
// CHECK:       kernel.attention causal 24 indexing_maps
// CHECK:       schedule = #launch.attention<columns, tile [9, 3, 16], mix [8, 1], keys 72>
job.job @causal placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<40x16xf32>
  %k = job.input "k" : tensor<64x16xf32>
  %v = job.input "v" : tensor<64x16xf32>
  %y = op.attention %q, %k, %v causal 24 : tensor<40x16xf32>, tensor<64x16xf32>, tensor<64x16xf32> -> tensor<40x16xf32>
  job.output "y", %y : tensor<40x16xf32>
}

// Vectors of one query are along its terms.
// CHECK-LABEL: launch.program @one
// CHECK:       schedule = #launch.attention<rows, tile [4, 1, 16], mix [1, 4], keys 300>
job.job @one placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<12x1x64xf32>
  %k = job.input "k" : tensor<12x300x64xf32>
  %v = job.input "v" : tensor<12x300x64xf32>
  %y = op.attention %q, %k, %v : tensor<12x1x64xf32>, tensor<12x300x64xf32>, tensor<12x300x64xf32> -> tensor<12x1x64xf32>
  job.output "y", %y : tensor<12x1x64xf32>
}

// They are not where the terms of keys lie apart.
// CHECK-LABEL: launch.program @apart
// CHECK:       schedule = #launch.attention<columns, tile [14, 1, 16], mix [1, 4], keys 112>
job.job @apart placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<1x64xf32>
  %k = job.input "k" : tensor<64x300xf32>
  %v = job.input "v" : tensor<300x64xf32>
  %y = op.attention %q, %k, %v k_by [1, 0] : tensor<1x64xf32>, tensor<64x300xf32>, tensor<300x64xf32> -> tensor<1x64xf32>
  job.output "y", %y : tensor<1x64xf32>
}

// Elements of 64 bits make vectors of half the lanes.
// CHECK-LABEL: launch.program @doubles
// CHECK:       schedule = #launch.attention<columns, tile [6, 4, 8], mix [6, 4], keys 66>
job.job @doubles placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<64x64xf64>
  %k = job.input "k" : tensor<64x64xf64>
  %v = job.input "v" : tensor<64x64xf64>
  %y = op.attention %q, %k, %v : tensor<64x64xf64>, tensor<64x64xf64>, tensor<64x64xf64> -> tensor<64x64xf64>
  job.output "y", %y : tensor<64x64xf64>
}

// Values whose elements lie apart make no vectors.
// CHECK-LABEL: launch.program @turned
// CHECK:       no_schedule = "the elements of values do not follow each other"
job.job @turned placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<64x64xf32>
  %k = job.input "k" : tensor<64x64xf32>
  %v = job.input "v" : tensor<64x64xf32>
  %y = op.attention %q, %k, %v v_by [1, 0] : tensor<64x64xf32>, tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  job.output "y", %y : tensor<64x64xf32>
}

// Nor do rows of so many terms that the panels of 16 queries do not lie on the stack:
// 5000 terms, 14 keys and 4 numbers that are kept of each row.
// CHECK-LABEL: launch.program @wide
// CHECK:       no_schedule = "321152 bytes of panels are more than the stack allows: 262144"
job.job @wide placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<64x5000xf32>
  %k = job.input "k" : tensor<64x5000xf32>
  %v = job.input "v" : tensor<64x64xf32>
  %y = op.attention %q, %k, %v : tensor<64x5000xf32>, tensor<64x5000xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
  job.output "y", %y : tensor<64x64xf32>
}

// Gradients of attention go through blocks of about 72 keys and 72 queries, both whole
// tiles.
// CHECK-LABEL:  launch.program @gradients
// CHECK:        schedule = #launch.attention_gradient<tile [6, 4, 16], mix [6, 4], queries 192, keys 66>
// NARROW-LABEL: launch.program @gradients
// NARROW:       schedule = #launch.attention_gradient<tile [6, 2, 8], mix [6, 2], queries 96, keys 66>
job.job @gradients placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<12x128x64xf32>
  %k = job.input "k" : tensor<12x128x64xf32>
  %v = job.input "v" : tensor<12x128x64xf32>
  %g = job.input "g" : tensor<12x128x64xf32>
  %l = job.input "l" : tensor<12x128xf32>
  %d = job.input "d" : tensor<12x128xf32>
  %x, %y, %z = op.attention_gradient %q, %k, %v, %g, %l, %d : tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128xf32>, tensor<12x128xf32> -> tensor<12x128x64xf32>, tensor<12x128x64xf32>, tensor<12x128x64xf32>
  job.output "x", %x : tensor<12x128x64xf32>
  job.output "y", %y : tensor<12x128x64xf32>
  job.output "z", %z : tensor<12x128x64xf32>
}
