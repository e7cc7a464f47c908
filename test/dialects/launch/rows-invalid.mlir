// RUN: penstock-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{unknown form 'rows', expected one of warp, block, grid}}
"test.op"() {s = #launch.rows<rows, threads 32, width 4>} : () -> ()

// -----

// expected-error@+1 {{threads should be a power of 2 from 32 to 1024, got 48}}
"test.op"() {s = #launch.rows<block, threads 48, width 4>} : () -> ()

// -----

// expected-error@+1 {{width should be a power of 2 from 1 to 32, got 3}}
"test.op"() {s = #launch.rows<block, threads 64, width 3>} : () -> ()

// -----

// expected-error@+1 {{a warp has 32 threads, and a block more, got warp of 64}}
"test.op"() {s = #launch.rows<warp, threads 64, width 4>} : () -> ()

// -----

// expected-error@+1 {{a warp has 32 threads, and a block more, got block of 32}}
"test.op"() {s = #launch.rows<block, threads 32, width 4>} : () -> ()

// -----

// expected-error@+1 {{unknown form 'rows', expected one of lines, columns}}
"test.op"() {s = #launch.vector_loops<rows>} : () -> ()

// -----

// expected-error@+1 {{each number of fixed should be an integer from 0, got [-1]}}
"test.op"() {s = #launch.map<fixed [-1]>} : () -> ()
