// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{a library has a name}}
"test.op"() {s = #launch.library<"">} : () -> ()

// -----

// expected-error@+1 {{folds should be an integer from 0 to 1, got 2}}
"test.op"() {s = #launch.library<"mine", folds 2>} : () -> ()
