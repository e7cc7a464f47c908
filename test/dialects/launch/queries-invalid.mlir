// RUN: penstock-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{unknown form 'columns', expected one of rows, tiles, warps}}
"test.op"() {s = #launch.queries<columns, queries 64, keys 32>} : () -> ()

// -----

// expected-error@+1 {{queries should be a power of 2 from 1, got 48}}
"test.op"() {s = #launch.queries<tiles, queries 48, keys 32>} : () -> ()

// -----

// expected-error@+1 {{keys should be a power of 2 from 1 to 1024, got 0}}
"test.op"() {s = #launch.queries<warps, queries 64, keys 0>} : () -> ()

// -----

// expected-error@+1 {{in the form rows a block has one query, got 2}}
"test.op"() {s = #launch.queries<rows, queries 2, keys 4>} : () -> ()

// -----

// expected-error@+1 {{a block has 16 to 128 queries and 16 keys at least, got 64 and 8}}
"test.op"() {s = #launch.queries<tiles, queries 64, keys 8>} : () -> ()

// -----

// expected-error@+1 {{a block has 16 to 128 queries and 16 keys at least, got 256 and 16}}
"test.op"() {s = #launch.queries<tiles, queries 256, keys 16>} : () -> ()

// -----

// expected-error@+1 {{keys should be a power of 2 from 1 to 1024, got 2048}}
"test.op"() {s = #launch.queries<rows, queries 1, keys 2048>} : () -> ()
