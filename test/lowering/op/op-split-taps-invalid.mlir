// RUN: not penstock-opt %s -p 'op-split-taps{least-share=0}' 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not penstock-opt %s -p 'op-split-taps{least-share=101}' 2>&1 | filecheck %s --check-prefix=MANY

// NONE: op-split-taps: least-share must be 1 to 100 percent, got 0
// MANY: op-split-taps: least-share must be 1 to 100 percent, got 101
job.job @empty placement <cpu, [0:0]> {
}
