// A pass that fails lists every operation in its way, and says which pass it is.
// RUN: penstock-opt %s --load %S/Inputs/plugin.py -p refuse-all --verify-diagnostics
// RUN: not penstock-opt %s --load %S/Inputs/plugin.py -p canonicalize,refuse-all 2>&1 | filecheck %s

// CHECK:      {{^.*}}pass-failure.mlir:9:1: error: refuse-all: no greetings here{{$}}
// CHECK-NEXT: {{^.*}}pass-failure.mlir:11:1: error: refuse-all: no greetings here{{$}}

// expected-error@+1 {{refuse-all: no greetings here}}
greet.hello
// expected-error@+1 {{refuse-all: no greetings here}}
greet.hello
