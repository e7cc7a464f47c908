// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{unknown form 'both', expected one of columns, rows}}
"test.op"() {s = #launch.attention<both, tile [6, 4, 16], mix [4, 3], keys 126>} : () -> ()

// -----

// expected-error@+1 {{each number of mix should be an integer from 1, got [0, 3]}}
"test.op"() {s = #launch.attention<columns, tile [6, 4, 16], mix [0, 3], keys 126>} : () -> ()

// -----

// expected-error@+1 {{9 x 4 vectors of sums do not fit into 32 registers}}
"test.op"() {s = #launch.attention<columns, tile [9, 4, 16], mix [4, 3], keys 126>} : () -> ()

// -----

// expected-error@+1 {{8 x 5 vectors of sums do not fit into 32 registers}}
"test.op"() {s = #launch.attention<columns, tile [6, 4, 16], mix [8, 5], keys 126>} : () -> ()

// -----

// expected-error@+1 {{the lanes of a vector should be a power of 2 up to 64, got 12}}
"test.op"() {s = #launch.attention<columns, tile [6, 4, 12], mix [4, 3], keys 126>} : () -> ()

// -----

// expected-error@+1 {{the form rows has one vector of scores, got 2}}
"test.op"() {s = #launch.attention<rows, tile [8, 2, 16], mix [1, 4], keys 128>} : () -> ()

// -----

// expected-error@+1 {{a block should have whole tiles of 6 keys, got 128 keys}}
"test.op"() {s = #launch.attention<columns, tile [6, 4, 16], mix [4, 3], keys 128>} : () -> ()

// -----

// expected-error@+1 {{1020 x 64 scores are more than the stack allows: 32768}}
"test.op"() {s = #launch.attention<columns, tile [6, 4, 16], mix [4, 3], keys 1020>} : () -> ()

// -----

// expected-error@+1 {{tile takes 3 numbers, got 2}}
"test.op"() {s = #launch.attention<columns, tile [6, 4], mix [4, 3], keys 126>} : () -> ()

// -----

// expected-error@+1 {{9 x 4 vectors of sums do not fit into 32 registers}}
"test.op"() {s = #launch.attention_gradient<tile [9, 4, 8], mix [6, 2], queries 96, keys 72>} : () -> ()

// -----

// expected-error@+1 {{9 x 4 vectors of sums do not fit into 32 registers}}
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 8], mix [9, 4], queries 144, keys 72>} : () -> ()

// -----

// expected-error@+1 {{the lanes of a vector should be a power of 2 up to 64, got 12}}
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 12], mix [6, 2], queries 48, keys 66>} : () -> ()

// -----

// expected-error@+1 {{a block should have whole tiles of 6 keys, got 64}}
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 8], mix [6, 2], queries 48, keys 64>} : () -> ()

// -----

// expected-error@+1 {{a block should have whole tiles of 4 keys, got 66}}
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 8], mix [4, 2], queries 48, keys 66>} : () -> ()

// -----

// expected-error@+1 {{a block should have whole tiles of 16 queries, got 50}}
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 8], mix [2, 2], queries 50, keys 66>} : () -> ()

// -----

// expected-error@+1 {{a block should have whole tiles of 3 queries, got 64}}
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 8], mix [3, 2], queries 64, keys 66>} : () -> ()

// -----

// expected-error@+1 {{1020 x 48 shares are more than the stack allows: 32768}}
"test.op"() {s = #launch.attention_gradient<tile [6, 2, 8], mix [6, 2], queries 48, keys 1020>} : () -> ()

// -----

// expected-error@+1 {{a block has 16 queries and 16 keys at least, got 8 and 16}}
"test.op"() {s = #launch.gradient_tiles<queries 8, keys 16>} : () -> ()

// -----

// expected-error@+1 {{a block has 16 queries and 16 keys at least, got 32 and 8}}
"test.op"() {s = #launch.gradient_tiles<queries 32, keys 8>} : () -> ()
