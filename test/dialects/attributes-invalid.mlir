// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// An attribute without a dialect's prefix has to be declared at its op, on every level.

// expected-error@+1 {{job.job: unknown attribute 'systen', did you mean 'system'? (what is not ours has a dialect's prefix, such as 'acme.systen')}}
job.job @a placement <cpu, [0:0]> attributes {systen} {
  // expected-error@+1 {{job.input: unknown attribute 'slotz', did you mean 'slots'? (what is not ours has a dialect's prefix, such as 'acme.slotz')}}
  %x = job.input "x" {slotz = 2 : i64} : tensor<4xf32>
  // expected-error@+1 {{op.relu: unknown attribute 'foo' (what is not ours has a dialect's prefix, such as 'acme.foo')}}
  %y = op.relu %x {foo = 3 : i64} : tensor<4xf32> -> tensor<4xf32>
  // expected-error@+1 {{op.softmax: unknown attribute 'axes', did you mean 'axis'?}}
  %z = op.softmax %y axis 0 {axes = 0 : i64} : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %z : tensor<4xf32>
}

// -----

// A property that is given as an attribute: the error shows how it is written.

job.job @properties placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x16xf32>
  // expected-error@+1 {{op.softmax: 'axis' is a property of the op, no attribute: write %y = op.softmax %x axis 0 {acme.note} : tensor<8x16xf32> -> tensor<8x16xf32>}}
  %y = op.softmax %x {axis = 0 : i64, acme.note} : tensor<8x16xf32> -> tensor<8x16xf32>
  // expected-error@+1 {{op.reduce_sum: 'keepdims' is a property of the op, no attribute: write %s = op.reduce_sum %x axes [0] keepdims : tensor<8x16xf32> -> tensor<1x16xf32>}}
  %s = op.reduce_sum %x axes [0] {keepdims} : tensor<8x16xf32> -> tensor<1x16xf32>
  // expected-error@+1 {{op.softmax: 'axis' is a property of the op, no attribute: it is written outside of the braces of attributes}}
  %z = op.softmax %x {axis = 0.5 : f64} : tensor<8x16xf32> -> tensor<8x16xf32>
  // expected-error@+1 {{job.output: 'cuts' is a property of the op, no attribute: it is written outside}}
  job.output "y", %y {cuts = []} : tensor<8x16xf32>
}

// -----

// expected-error@+1 {{plan.plan: unknown attribute 'event', did you mean 'events'?}}
plan.plan @a attributes {event = 1 : i64} {
  // expected-error@+1 {{regst.chunk: unknown attribute 'cold'}}
  %c = regst.chunk on <0, host> size 64 {cold}
  // expected-error@+1 {{regst.block: unknown attribute 'cold'}}
  %k = regst.block in %c at 0 size 64 {cold}
  // expected-error@+1 {{regst.register: unknown attribute 'noalias', did you mean 'no_alias'?}}
  %x = regst.register "x" in %k at 0 slots 1 on <0, host> {noalias} : !regst.data<tensor<4xf32>>
  // expected-error@+1 {{plan.task: unknown attribute 'wait_for', did you mean 'waits_for'?}}
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !regst.data<tensor<4xf32>>) attributes {wait_for = ["y"]} {
    %v = job.input "x" : tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{launch.program: unknown attribute 'job', did you mean 'jobs'?}}
launch.program @a rank 0 attributes {job = "a"} {
  // expected-error@+1 {{launch.chunk: unknown attribute 'memori', did you mean 'memory'?}}
  launch.chunk @c on <0, host> size 64 {memori}
}
