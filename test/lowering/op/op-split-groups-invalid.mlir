// RUN: not penstock-opt %s -p op-split-groups 2>&1 | filecheck %s --check-prefix=NEEDS
// RUN: not penstock-opt %s -p 'op-split-groups{database="nowhere.db"}' 2>&1 | filecheck %s --check-prefix=NO-TIMES
// RUN: not penstock-opt %s -p 'op-split-groups{database="nowhere.db" parts=0}' 2>&1 | filecheck %s --check-prefix=NO-PARTS

// NEEDS:    pass 'op-split-groups': {{.*}}database
// NO-TIMES: op-split-groups: cannot read nowhere.db: no such file
// NO-PARTS: op-split-groups: parts must be at least 1, got 0
