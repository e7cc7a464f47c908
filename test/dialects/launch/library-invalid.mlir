// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{a library has a name}}
"test.op"() {s = #launch.library<"">} : () -> ()

// -----

// expected-error@+1 {{#launch.library has no 'folds' any more: kernel.contract has the start and finish of its sums}}
"test.op"() {s = #launch.library<"mine", folds 1>} : () -> ()
