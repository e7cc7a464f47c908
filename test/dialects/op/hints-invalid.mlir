// RUN: penstock-opt %s --verify-diagnostics --split-input-file

!t = tensor<4xf32>
job.job @numbers placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // expected-error@+1 {{the hint 'result 1 never' is about result 1, but op.relu has 1}}
  %a = op.relu %x {in_place = [#op.hint<result 1 never>]} : !t -> !t
  // expected-error@+1 {{the hint 'must over 1' is about operand 1, but op.relu has 1}}
  %b = op.relu %x {in_place = [#op.hint<must over 1>]} : !t -> !t
}

// -----

!t = tensor<4xf32>
job.job @types placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %i = job.input "i" : tensor<4xi64>
  // expected-error@+1 {{the hint 'may over 1' is about elements of f32 and i64}}
  %a = op.gather %x[%i] axis 0 {in_place = [#op.hint<may over 1>]} : !t, tensor<4xi64> -> !t
}

// -----

!t = tensor<4xf32>
job.job @twice placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  // expected-error@+1 {{two hints for one pair: 'may over 0' and 'never over 0'}}
  %a = op.add %x, %y {in_place = [#op.hint<may over 0>, #op.hint<never over 0>]} : !t, !t -> !t
  // expected-error@+1 {{'must over 0' and 'must over 1' contradict each other}}
  %b = op.add %x, %y {in_place = [#op.hint<must over 0>, #op.hint<must over 1>]} : !t, !t -> !t
  // expected-error@+1 {{'never' and 'may over 1' contradict each other}}
  %c = op.add %x, %y {in_place = [#op.hint<never>, #op.hint<may over 1>]} : !t, !t -> !t
}

// -----

!t = tensor<4xf32>
job.job @list placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  // expected-error@+1 {{in_place should be a list of #op.hint, got}}
  %a = op.relu %x {in_place = #op.hint<may over 0>} : !t -> !t
}

// -----

// expected-error@+1 {{a hint says may, must or never, got 'should'}}
"test.op"() {in_place = [#op.hint<should over 0>]} : () -> ()

// -----

// expected-error@+1 {{'must' names an operand to lie over}}
"test.op"() {in_place = [#op.hint<must>]} : () -> ()

// -----

// expected-error@+1 {{operand must not be negative, got -1}}
"test.op"() {in_place = [#op.hint<may over -1>]} : () -> ()
