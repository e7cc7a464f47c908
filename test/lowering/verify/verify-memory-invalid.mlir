// RUN: penstock-opt %s -p 'verify-memory{limits="host=0"}' --verify-diagnostics --split-input-file
// RUN: not penstock-opt %s -p 'verify-memory{limits="host"}' 2>&1 | filecheck %s --check-prefix=NO-SIZE
// RUN: not penstock-opt %s -p 'verify-memory{limits="host=4G,cuda=4GB"}' 2>&1 | filecheck %s --check-prefix=UNIT
// RUN: not penstock-opt %s -p 'verify-memory{limits="cpu:0=4G"}' 2>&1 | filecheck %s --check-prefix=CPU
// RUN: not penstock-opt %s -p 'verify-memory{limits="host:1=4G"}' 2>&1 | filecheck %s --check-prefix=HOST
// RUN: not penstock-opt %s -p 'verify-memory{limits="cuda=1,host=2,cuda=3"}' 2>&1 | filecheck %s --check-prefix=TWICE

// NO-SIZE: verify-memory: limits: expected a memory and its size, such as host=4G, got 'host'
// UNIT:    verify-memory: limits: expected a memory and its size, such as host=4G, got 'cuda=4GB'
// CPU:     verify-memory: limits: the memory of processors is 'host', got 'cpu:0'
// HOST:    verify-memory: limits: the memory of processors is 'host', got 'host:1'
// TWICE:   verify-memory: limits: 'cuda' is listed twice

// expected-error@+1 {{verify-memory: tasks hand on values, run plan-create-registers first}}
plan.plan @values {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{verify-memory: registers have no place yet, run regst-plan-memory first}}
plan.plan @no_places {
  %x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// Memory in which nothing lies has no owners.

// expected-error@+1 {{verify-memory: memory host of rank 3 takes 64 bytes, but the limit is 0}}
plan.plan @empty {
  %c = regst.chunk on <3, host> size 64
}

// -----

// Plans and ranks are looked at apart.

// expected-error@+2 {{verify-memory: memory host of rank 0 takes 16 bytes, but the limit is 0; most of it is for 'x' 16}}
// expected-error@+1 {{verify-memory: memory host of rank 1 takes 32 bytes, but the limit is 0; most of it is for 'y' 32}}
plan.plan @ranks {
  %c = regst.chunk on <0, host> size 16
  %b = regst.block in %c at 0 size 16
  %x = regst.register "x" in %b at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
  %d = regst.chunk on <1, host> size 32
  %e = regst.block in %d at 0 size 32
  %y = regst.register "y" in %e at 0 slots 1 on <1, host> : !regst.data<tensor<8xf32>>
}
