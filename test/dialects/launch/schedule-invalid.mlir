// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{unknown form 'diagonal', expected one of inner, outer, upright}}
"test.op"() {s = #launch.contraction<diagonal, tile [1, 1, 1], block [1, 1]>} : () -> ()

// -----

// expected-error@+1 {{each number of tile should be an integer from 1, got [0, 1, 1]}}
"test.op"() {s = #launch.contraction<outer, tile [0, 1, 1], block [1, 1]>} : () -> ()

// -----

// expected-error@+1 {{8 x 5 vectors of sums do not fit into 32 registers}}
"test.op"() {s = #launch.contraction<outer, tile [8, 5, 16], block [8, 1]>} : () -> ()

// -----

// expected-error@+1 {{the lanes of a vector should be a power of 2 up to 64, got 12}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 12], block [1, 1]>} : () -> ()

// -----

// expected-error@+1 {{a block should have whole tiles of 4 rows, got 6 rows}}
"test.op"() {s = #launch.contraction<outer, tile [4, 1, 16], block [6, 1]>} : () -> ()

// -----

// expected-error@+1 {{only the form outer reads panels}}
"test.op"() {s = #launch.contraction<inner, tile [1, 1, 16], block [1, 1], packed>} : () -> ()

// -----

// expected-error@+1 {{a panel of 1024 x 64 elements is larger than the stack allows: 32768}}
"test.op"() {s = #launch.contraction<outer, tile [6, 4, 16], block [6, 1024], packed>} : () -> ()

// -----

// expected-error@+1 {{prefetch should be an integer from 0, got -1}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], prefetch -1>} : () -> ()

// -----

// expected-error@+1 {{tile takes 3 numbers, got 2}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1], block [1, 1]>} : () -> ()

// -----

// expected-error@+1 {{edge should be an integer from 0, got -1}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], packed, edge -1, panels a>} : () -> ()

// -----

// expected-error@+1 {{unknown panels 'c', expected one of a, b}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], panels c>} : () -> ()

// -----

// expected-error@+1 {{the form inner reads no panels of a}}
"test.op"() {s = #launch.contraction<inner, tile [1, 1, 16], block [1, 1], panels a>} : () -> ()

// -----

// expected-error@+1 {{what lies in panels is not packed}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], packed, panels b>} : () -> ()

// -----

// expected-error@+1 {{an edge needs panels a}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], packed, edge 1>} : () -> ()

// -----

// expected-error@+1 {{upright tiles take panels a, and nothing else}}
"test.op"() {s = #launch.contraction<upright, tile [14, 2, 16], block [14, 9]>} : () -> ()

// -----

// expected-error@+1 {{upright tiles take panels a, and nothing else}}
"test.op"() {s = #launch.contraction<upright, tile [14, 2, 16], block [14, 9], prefetch 1, panels a>} : () -> ()

// -----

// expected-error@+1 {{lanes should be a power of 2 from 4 to 64, got 2}}
"test.op"() {s = #launch.transform<lanes 2>} : () -> ()

// -----

// expected-error@+1 {{#launch.transform has no 'after' any more: kernel.tile_transform has the start and finish of its sums}}
"test.op"() {s = #launch.transform<lanes 8, after 1>} : () -> ()

// -----

// expected-error@+1 {{#launch.transform has no 'folds' any more: kernel.tile_transform has the start and finish of its sums}}
"test.op"() {s = #launch.transform<lanes 8, folds [0, 1]>} : () -> ()

// -----

// expected-error@+1 {{nothing follows lanes in #launch.transform}}
"test.op"() {s = #launch.transform<lanes 8, other 1>} : () -> ()

// -----

// expected-error@+1 {{lanes should be a power of 2 from 1 to 64, got 12}}
"test.op"() {s = #launch.windows<lanes 12, lines 4>} : () -> ()

// -----

// expected-error@+1 {{lines should be an integer from 1 to 64, got 65}}
"test.op"() {s = #launch.windows<lanes 16, lines 65>} : () -> ()

// -----

// expected-error@+1 {{reuse should be an integer from 0, got -1}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], reuse -1>} : () -> ()

// -----

// expected-error@+1 {{rows are reused by the form outer, without panels a or prefetch}}
"test.op"() {s = #launch.contraction<inner, tile [1, 1, 16], block [1, 1], reuse 2>} : () -> ()

// -----

// expected-error@+1 {{rows are reused by the form outer, without panels a or prefetch}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], reuse 2, panels a>} : () -> ()

// -----

// expected-error@+1 {{264 rows of 512 terms are more to reuse than the stack allows: 131072 elements}}
"test.op"() {s = #launch.contraction<outer, tile [8, 3, 16], block [264, 512], reuse 2>} : () -> ()

// -----

// expected-error@+1 {{groups are of rows to reuse and columns in panels}}
"test.op"() {s = #launch.contraction<outer, tile [8, 3, 16], block [8, 512], group 4, packed>} : () -> ()

// -----

// expected-error@+1 {{a block has whole groups of 4 terms, got 510 terms}}
"test.op"() {s = #launch.contraction<outer, tile [8, 3, 16], block [8, 510], group 4, reuse 1, panels b>} : () -> ()

// -----

// A byte is a fourth of what other elements have at least.
// expected-error@+1 {{a panel of 4096 x 48 elements is larger than the stack allows: 131072}}
"test.op"() {s = #launch.contraction<outer, tile [8, 3, 16], block [8, 4096], group 4, packed, reuse 1>} : () -> ()

// -----

// expected-error@+1 {{matrices have 16 or 32 rows, one or two vectors of 16 and whole chunks of 64 terms, got tile [8, 2, 16] and 64 terms}}
"test.op"() {s = #launch.contraction<outer, tile [8, 2, 16], block [8, 64], matrices, packed, reuse 1>} : () -> ()

// -----

// expected-error@+1 {{matrices have 16 or 32 rows, one or two vectors of 16 and whole chunks of 64 terms, got tile [16, 1, 16] and 96 terms}}
"test.op"() {s = #launch.contraction<outer, tile [16, 1, 16], block [16, 96], matrices, packed, reuse 1>} : () -> ()

// -----

// expected-error@+1 {{matrices are of groups, too: name one}}
"test.op"() {s = #launch.contraction<outer, tile [16, 1, 16], block [16, 64], group 4, matrices, packed, reuse 1>} : () -> ()

// -----

// Fields without a default come in their order, others in any order, but once.
// expected-error@+1 {{prefetch is given twice}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], prefetch 1, prefetch 2>} : () -> ()

// -----

// expected-error@+1 {{#launch.contraction has no 'folds' any more: kernel.contract has the start and finish of its sums}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], folds [1, 0]>} : () -> ()

// -----

// expected-error@+1 {{#launch.contraction has no 'quads' any more: groups of four terms are group 4}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 4], quads>} : () -> ()

// -----

// expected-error@+1 {{group should be a power of 2 from 1 to 4, got 3}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 3], group 3, reuse 1, packed>} : () -> ()

// -----

// expected-error@+1 {{unknown part of #launch.contraction, expected one of group, matrices, packed, prefetch, edge, reuse, panels}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], packet>} : () -> ()

// -----

// expected-error@+1 {{block of #launch.contraction is missing}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16]>} : () -> ()

// -----

// expected-error@+1 {{nothing follows form in #launch.window_threads}}
"test.op"() {s = #launch.window_threads<taps, lanes 4>} : () -> ()

// -----

// expected-error@+1 {{looped tiles have one line, got 2}}
"test.op"() {s = #launch.windows<lanes 16, lines 2, looped>} : () -> ()

// -----

// expected-error@+1 {{vectors should be an integer from 1 to 16, got 17}}
"test.op"() {s = #launch.windows<lanes 16, lines 1, vectors 17>} : () -> ()

// -----

// expected-error@+1 {{prefetch should be an integer from 0, got 2147483648}}
"test.op"() {s = #launch.contraction<outer, tile [1, 1, 16], block [1, 1], prefetch 2147483648>} : () -> ()

// -----

// expected-error@+1 {{the form inner prefetches no rows}}
"test.op"() {s = #launch.contraction<inner, tile [1, 1, 16], block [1, 1], prefetch 2>} : () -> ()

// -----

// expected-error@+1 {{6 x 4 vectors of sums and an edge of 9 do not fit into 32 registers}}
"test.op"() {s = #launch.contraction<outer, tile [6, 4, 16], block [6, 1], packed, edge 9, panels a>} : () -> ()
