// A Python file brings passes and dialects that the same command can use.
// RUN: penstock-opt %s --load %S/Inputs/plugin.py -p 'greet-all{word="ho" times=2},canonicalize' | filecheck %s
// RUN: penstock-opt --load %S/Inputs/plugin.py --help | filecheck %s --check-prefix=HELP
// RUN: penstock-opt --load %S/Inputs/plugin.py --list-passes | filecheck %s --check-prefix=LIST
// RUN: penstock-opt --load %S/Inputs/plugin.py --show-dialects | filecheck %s --check-prefix=DIALECTS

// CHECK: greet.hello {word = "hoho"}
greet.hello

// HELP-LABEL: passes of {{.*}}plugin.py:
// HELP-NEXT:    greet-all, refuse-all
// HELP-LABEL: dialects of {{.*}}plugin.py:
// HELP-NEXT:    greet

// LIST:       passes of xdsl:
// LIST:       canonicalize: Applies all canonicalization patterns.
// LIST:       passes of {{.*}}plugin.py:
// LIST-NEXT:    greet-all: Write a word on every greeting.
// LIST-NEXT:      word: str = hello
// LIST-NEXT:      times: int = 1
// LIST-NEXT:    refuse-all: Refuse every greeting.

// DIALECTS:      dialects of penstock:
// DIALECTS-NEXT:   job, kernel, launch, op, plan, regst
// DIALECTS:      dialects of xdsl:
// DIALECTS-NEXT:   {{.*}}arith
// DIALECTS:      dialects of {{.*}}plugin.py:
// DIALECTS-NEXT:   greet
