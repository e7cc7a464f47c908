// A reproducer names the files whose plug-ins were known, and never loads them itself.
// RUN: penstock-opt %s --load %S/Inputs/plugin.py -p greet-all --generate-reproducer=%t.mlir -o %t.out
// RUN: filecheck %s --check-prefix=FILE --input-file %t.mlir
// RUN: penstock-opt %t.mlir --load %S/Inputs/plugin.py 2>%t.err | diff - %t.out
// RUN: diff %t.err /dev/null

// Without them it is told what was there.
// RUN: sed 's/greet.hello/"greet.hello"() : () -> ()/; s/greet-all/cse/' %t.mlir > %t.other.mlir
// RUN: penstock-opt %t.other.mlir --allow-unregistered-dialect 2>&1 >%t.out | filecheck %s --check-prefix=WARN

// Nor does an error hide that, if the IR itself is of a dialect of theirs.
// RUN: not penstock-opt %t.mlir 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not penstock-reduce %t.mlir 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not penstock-run %t.mlir 2>&1 | filecheck %s --check-prefix=UNKNOWN

// A reduced one names them, too.
// RUN: not penstock-opt %s --load %S/Inputs/plugin.py -p greet-all,refuse-all --crash-reproducer=%t.crash.mlir
// RUN: penstock-reduce %t.crash.mlir --load %S/Inputs/plugin.py | filecheck %s --check-prefix=SMALL

// FILE: pipeline: "builtin.module(greet-all{{.*}})",
// FILE: load: "{{.*}}Inputs/plugin.py"

// SMALL: pipeline: "builtin.module(refuse-all)",
// SMALL: load: "{{.*}}Inputs/plugin.py"

// WARN: warning: the reproducer was written with --load {{.*}}Inputs/plugin.py, and may need that

// UNKNOWN: mlir:2:3: error: Operation greet.hello is not registered
// UNKNOWN: mlir:2:3: note: the reproducer was written with --load {{.*}}Inputs/plugin.py, and may need that
greet.hello
