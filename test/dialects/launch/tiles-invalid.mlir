// RUN: penstock-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{each number of block should be a power of 2 from 1, got [16, 0, 8]}}
"test.op"() {s = #launch.tiles<block [16, 0, 8], thread [2, 2]>} : () -> ()

// -----

// expected-error@+1 {{each number of block should be a power of 2 from 1, got [48, 64, 8]}}
"test.op"() {s = #launch.tiles<block [48, 64, 8], thread [2, 2]>} : () -> ()

// -----

// expected-error@+1 {{a thread's tile [4, 4] is larger than that of its block, [2, 256]}}
"test.op"() {s = #launch.tiles<block [2, 256, 8], thread [4, 4]>} : () -> ()

// -----

// expected-error@+1 {{a block has 32 to 1024 threads, got 16}}
"test.op"() {s = #launch.tiles<block [16, 16, 8], thread [4, 4]>} : () -> ()

// -----

// expected-error@+1 {{16 x 8 sums do not fit into the registers of a thread}}
"test.op"() {s = #launch.tiles<block [128, 128, 8], thread [16, 8]>} : () -> ()

// -----

// expected-error@+1 {{16896 elements do not fit into shared memory, which has room for 12288}}
"test.op"() {s = #launch.tiles<block [128, 128, 32], thread [8, 8]>} : () -> ()

// -----

// expected-error@+1 {{256 threads bring more than 1 terms of 128 rows and 128 columns}}
"test.op"() {s = #launch.tiles<block [128, 128, 1], thread [8, 8]>} : () -> ()

// -----

// expected-error@+1 {{#launch.tiles has no 'folds' any more: kernel.contract has the start and finish of its sums}}
"test.op"() {s = #launch.tiles<block [128, 128, 8], thread [8, 8], folds [1, 0]>} : () -> ()

// -----

// expected-error@+1 {{thread takes 2 numbers, got 1}}
"test.op"() {s = #launch.tiles<block [128, 128, 8], thread [8]>} : () -> ()

// -----

// expected-error@+1 {{tensor cores multiply 16 rows, columns and terms, got warps of [8, 64] and 32 terms}}
"test.op"() {s = #launch.tiles<block [64, 64, 32], warp [8, 64], stages 4>} : () -> ()

// -----

// expected-error@+1 {{tensor cores multiply 16 rows, columns and terms, got warps of [32, 32] and 8 terms}}
"test.op"() {s = #launch.tiles<block [64, 64, 8], warp [32, 32], stages 4>} : () -> ()

// -----

// expected-error@+1 {{terms have 2, 4 stages, got 3}}
"test.op"() {s = #launch.tiles<block [64, 64, 32], warp [32, 32], stages 3>} : () -> ()

// -----

// expected-error@+1 {{128 x 64 sums do not fit into the registers of a warp}}
"test.op"() {s = #launch.tiles<block [128, 128, 32], warp [128, 64], stages 4>} : () -> ()

// -----

// expected-error@+1 {{294912 bytes do not fit into shared memory, which has room for 163840}}
"test.op"() {s = #launch.tiles<block [256, 256, 64], warp [64, 64], stages 4>} : () -> ()

// -----

// expected-error@+1 {{warp takes 2 numbers, got 1}}
"test.op"() {s = #launch.tiles<block [64, 64, 32], warp [32], stages 4>} : () -> ()

// -----

// expected-error@+1 {{a block has tiles of threads, or of warps}}
"test.op"() {s = #launch.tiles<block [128, 128, 8], thread [8, 8], warp [64, 32], stages 4>} : () -> ()

// -----

// expected-error@+1 {{a block has tiles of threads, or of warps}}
"test.op"() {s = #launch.tiles<block [128, 128, 8]>} : () -> ()

// -----

// expected-error@+1 {{tiles of threads have no stages}}
"test.op"() {s = #launch.tiles<block [128, 128, 8], thread [8, 8], stages 4>} : () -> ()

// -----

// expected-error@+1 {{a warp's tile [64, 64] is larger than that of its block, [64, 32]}}
"test.op"() {s = #launch.tiles<block [64, 32, 32], warp [64, 64], stages 4>} : () -> ()
