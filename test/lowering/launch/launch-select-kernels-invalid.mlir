// RUN: penstock-opt %s --load %S/../Inputs/kernels.py --load %S/../Inputs/beads.py -p launch-select-kernels --split-input-file --verify-diagnostics
// RUN: not penstock-opt %s -p 'launch-select-kernels{parts=0}' 2>&1 | filecheck %s --check-prefix=PARTS
// RUN: not penstock-opt %s -p 'launch-select-kernels{vector-bytes=48}' 2>&1 | filecheck %s --check-prefix=ODD
// RUN: not penstock-opt %s -p 'launch-select-kernels{database="nowhere.db"}' 2>&1 | filecheck %s --check-prefix=NOWHERE
// RUN: echo "not a database, but a text that is longer than its head" > %t.txt
// RUN: not penstock-opt %s -p 'launch-select-kernels{database="%t.txt"}' 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not penstock-opt %s -p 'plan-write-times' 2>&1 | filecheck %s --check-prefix=NEEDS
// RUN: not penstock-opt %s -p 'plan-write-times{database="nowhere.db"}' 2>&1 | filecheck %s --check-prefix=NO-TIMES
// RUN: not penstock-opt %s -p 'plan-write-times{database="nowhere.db" parts=0}' 2>&1 | filecheck %s --check-prefix=NO-PARTS

// PARTS:    launch-select-kernels: parts must be at least 1, got 0
// ODD:      launch-select-kernels: vectors have 16, 32, 64 bytes, got 48
// NOWHERE:  launch-select-kernels: cannot read nowhere.db: no such file
// TEXT:     launch-select-kernels: cannot use {{.*}} as a kernel database: file is not a database
// NEEDS:    pass 'plan-write-times': {{.*}}database
// NO-TIMES: plan-write-times: cannot read nowhere.db: no such file
// NO-PARTS: plan-write-times: parts must be at least 1, got 0

// All kernels are told that nothing can compute, each with what refuses it.
// expected-error@+1 {{launch-select-kernels: kernel @first (acme.x) for abacus, f32, i64: nothing computes it: acme-beads moves no beads; acme-broken is for cpu; acme-checked is for cpu; acme-greedy is for cpu; acme-modelled is for cpu; acme-swish is for cpu; cublas is for cuda; cudnn is for cuda; loops is for cpu; rules is for cpu, cuda; tiles is for cpu}}
launch.kernel @first target "abacus" (%a: memref<4xf32>, %b: memref<4xi64>) attributes {cost = {bytes = 1, flops = 2, op = "acme.x"}} {
}
// expected-error@+1 {{launch-select-kernels: kernel @second for abacus, f32: nothing computes it}}
launch.kernel @second target "abacus" (%a: memref<4xf32>) {
}

// -----

// A kind of device that nothing is for is told once, at its first kernel.
// expected-error@+1 {{launch-select-kernels: there are no kernels for 'gpu', only for abacus, cpu, cuda}}
launch.kernel @third target "gpu" (%a: memref<4xf32>) {
}
launch.kernel @fourth target "gpu" (%a: memref<4xf32>) {
}
// expected-error@+1 {{launch-select-kernels: there are no kernels for 'sim', only for abacus, cpu, cuda}}
launch.kernel @fifth target "sim" (%a: memref<4xf32>) {
}

// -----

// An alternative that fails is named, and what it raises.
// expected-error@+1 {{launch-select-kernels: the alternative 'acme-broken' of penstock_loaded_0 fails: KeyError: 'tile'}}
launch.kernel @broken target "cpu" (%a: memref<4xf32>) attributes {cost = {bytes = 1, flops = 2, op = "acme.broken"}} {
}

// -----

// The arguments of a kernel are not to be changed.
// expected-error@+1 {{launch-select-kernels: the alternative 'acme-greedy' changes the arguments of @greedy}}
launch.kernel @greedy target "cpu" (%a: memref<4xf32>) attributes {cost = {bytes = 1, flops = 2, op = "acme.greedy"}} {
}
