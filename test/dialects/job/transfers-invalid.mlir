// RUN: penstock-opt %s --verify-diagnostics --split-input-file

plan.plan @receive {
  %x = plan.task "x" on <1, cpu:0> stream <network, 0> ins() -> tensor<4xf32> {
    // expected-error@+1 {{a tag is not negative, got -1}}
    %v = job.receive from <0, cpu:0> tag -1 : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @send {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "x/send" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{a tag is not negative, got -2}}
    job.send %v to <1, cpu:0> tag -2 : tensor<4xf32>
    plan.yield
  }
}

// -----

plan.plan @there rank 1 {
  // expected-error@+1 {{task 'x' is on rank 0, its plan is of rank 1}}
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

plan.plan @collective0 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{a collective is one of all_gather, all_reduce, all_to_all, broadcast, reduce_scatter, got 'gather'}}
    %w = job.collective "gather" by "ring" over [0, 1] tag 3 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

plan.plan @collective1 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{a collective is done by ring or mpi, got 'tree'}}
    %w = job.collective "all_reduce" by "tree" over [0, 1] tag 3 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

plan.plan @collective2 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{a collective is of several ranks, each once, got [0, 0]}}
    %w = job.collective "all_reduce" by "ring" over [0, 0] tag 3 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

plan.plan @collective3 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{ranks are not negative, got -1}}
    %w = job.collective "all_reduce" by "ring" over [0, -1] tag 3 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

plan.plan @collective4 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{a tag is not negative, got -3}}
    %w = job.collective "all_reduce" by "ring" over [0, 1] tag -3 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

plan.plan @collective5 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<2xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{reduce_scatter by ring reads and writes 1 and 2 tensors, got 1 and 1}}
    %w = job.collective "reduce_scatter" by "ring" over [0, 1] tag 3 ins(%v : tensor<4xf32>) -> tensor<2xf32>
    plan.yield %w : tensor<2xf32>
  }
}

// -----

plan.plan @collective6 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf64> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{elements of a collective are alike, got tensor<4xf32> and tensor<4xf64>}}
    %w = job.collective "all_reduce" by "ring" over [0, 1] tag 3 ins(%v : tensor<4xf32>) -> tensor<4xf64>
    plan.yield %w : tensor<4xf64>
  }
}

// -----

plan.plan @collective7 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf16> {
    %v = job.input "x" : tensor<4xf16>
    plan.yield %v : tensor<4xf16>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf16>) -> tensor<4xf16> {
  ^bb0(%v: tensor<4xf16>):
    // expected-error@+1 {{no mpi adds elements of f16}}
    %w = job.collective "all_reduce" by "mpi" over [0, 1] tag 3 ins(%v : tensor<4xf16>) -> tensor<4xf16>
    plan.yield %w : tensor<4xf16>
  }
}

// -----

plan.plan @collective8 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xi1> {
    %v = job.input "x" : tensor<4xi1>
    plan.yield %v : tensor<4xi1>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xi1>) -> tensor<4xi1> {
  ^bb0(%v: tensor<4xi1>):
    // expected-error@+1 {{no ring adds elements of i1}}
    %w = job.collective "all_reduce" by "ring" over [0, 1] tag 3 ins(%v : tensor<4xi1>) -> tensor<4xi1>
    plan.yield %w : tensor<4xi1>
  }
}

// -----

plan.plan @collective9 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<6xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{all_gather of 2 ranks makes 4 elements to 8, got 6}}
    %w = job.collective "all_gather" by "ring" over [0, 1] tag 3 ins(%v : tensor<4xf32>) -> tensor<6xf32>
    plan.yield %w : tensor<6xf32>
  }
}

// -----

plan.plan @collective10 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<4xf32> {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<4xf32>) -> tensor<4xf32> {
  ^bb0(%v: tensor<4xf32>):
    // expected-error@+1 {{all_to_all of 3 ranks cuts 4 elements, which are not for each as many}}
    %w = job.collective "all_to_all" by "ring" over [0, 1, 2] tag 3 ins(%v : tensor<4xf32>) -> tensor<4xf32>
    plan.yield %w : tensor<4xf32>
  }
}

// -----

plan.plan @collective11 {
  %x = plan.task "x" on <0, cpu:0> stream <compute, 0> ins() -> tensor<0xf32> {
    %v = job.input "x" : tensor<0xf32>
    plan.yield %v : tensor<0xf32>
  }
  %y = plan.task "y" on <0, cpu:0> stream <network, 0> ins(%x : tensor<0xf32>) -> tensor<0xf32> {
  ^bb0(%v: tensor<0xf32>):
    // expected-error@+1 {{all_reduce is of tensors with elements of a known number, got tensor<0xf32>}}
    %w = job.collective "all_reduce" by "ring" over [0, 1] tag 3 ins(%v : tensor<0xf32>) -> tensor<0xf32>
    plan.yield %w : tensor<0xf32>
  }
}
