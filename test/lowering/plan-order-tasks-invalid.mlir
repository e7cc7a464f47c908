// RUN: not penstock-opt %s -p 'plan-order-tasks{strategy="random"}' 2>&1 | filecheck %s
// RUN: not penstock-opt %s -p 'plan-order-tasks{budget=-1}' 2>&1 | filecheck %s --check-prefix=BUDGET

// CHECK: plan-order-tasks: strategy must be one of early-updates, memory, overlap, source, got 'random'
// BUDGET: plan-order-tasks: budget must not be negative, got -1
plan.plan @nothing {
^bb0:
}
