// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers --verify-diagnostics --split-input-file

// What must lie over an operand and cannot is an error with the rule that keeps it.

!t = tensor<4x4xf32>

job.job @cannot placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %w = job.variable "w" init <ones> : !t
  // expected-error@+1 {{regst-alias-registers: op.matmul must write 'm/out' over 'x/out', but kernel: operand 0: op.matmul cannot write result 0 over it}}
  %m = op.matmul %x, %y {in_place = [#op.hint<must over 0>]} : !t, !t -> !t
  // expected-error@+1 {{op.relu must write 'a/out' over 'x/out', but reader: 'b' may read it later}}
  %a = op.relu %x {in_place = [#op.hint<must over 0>]} : !t -> !t
  // expected-error@+1 {{op.add must write 'b/out' over 'w/out', but variable: 'w/out' is one}}
  %b = op.add %x, %w {in_place = [#op.hint<must over 1>]} : !t, !t -> !t
  // expected-error@+1 {{op.concat must write 'c/out' over 'a/out', but never: it is to be kept off operand 1}}
  %c = op.concat %a, %y axis 0 {in_place = [#op.hint<must over 0>, #op.hint<never over 1>]} : !t, !t -> tensor<8x4xf32>
  // expected-error@+1 {{op.add must write 'd/out' over 'b/out', but never: it is to be kept off operand 1}}
  %d = op.add %b, %b {in_place = [#op.hint<must over 0>, #op.hint<never over 1>]} : !t, !t -> !t
  job.output "m", %m : !t
  job.output "c", %c : tensor<8x4xf32>
  job.output "d", %d : !t
}

// -----

// Who looks at hints of ops that do not themselves.

job.job @copy placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{regst-alias-registers: the hint 'may over 1' is about operand 1, but job.copy has 1}}
  %d = job.copy %x to <0, cpu:1> {in_place = [#op.hint<may over 1>]} : tensor<4xf32>
  // expected-error@+1 {{in_place should be a list of #op.hint, got}}
  %e = job.copy %d to <0, cpu:0> {in_place = "may"} : tensor<4xf32>
  job.output "e", %e : tensor<4xf32>
}

// -----

// A register that says that it is no alias cannot be one that must.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

plan.plan @no_alias {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> {no_alias = "I look at it"} : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    // expected-error@+1 {{op.relu must write 'a' over 'x', but no_alias: 'a' says so already}}
    %1 = op.relu %0 {in_place = [#op.hint<must over 0>]} : !t -> !t
    plan.yield %1 : !t
  }
}
