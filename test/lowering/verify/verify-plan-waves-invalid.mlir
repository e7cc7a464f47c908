// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file

!t = tensor<16xf32>
!r = !regst.data<!t>

// Members with bytes of their own.

plan.plan @good {
  %c = regst.chunk on <0, host> size 192
  %m = regst.block in %c at 0 size 192
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %a = regst.register "a" in %m at 64 slots 1 on <0, host> : !r
  %b = regst.register "b" in %m at 128 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a, %b : !r, !r) {
  ^bb0(%u: !t):
    %v, %w = op.wave %u : !t -> !t, !t {
    ^bb1(%q: !t):
      %e = op.exp %q : !t -> !t
      %f = op.tanh %q : !t -> !t
      op.yield_wave %e, %f : !t, !t
    }
    plan.yield %v, %w : !t, !t
  }
}

// -----

!t = tensor<16xf32>
!r = !regst.data<!t>

// Two members that write the same bytes.

plan.plan @shared {
  %c = regst.chunk on <0, host> size 192
  %m = regst.block in %c at 0 size 192
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %a = regst.register "a" in %m at 64 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'a' and 'b' share 64 bytes, but task 'w' may use 'a' after task 'w' has begun to write 'b'}}
  %b = regst.register "b" in %m at 64 slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{member 1 (op.tanh) of wave 'w' shares bytes with one before it, which one of them writes}}
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a, %b : !r, !r) {
  ^bb0(%u: !t):
    %v, %w = op.wave %u : !t -> !t, !t {
    ^bb1(%q: !t):
      %e = op.exp %q : !t -> !t
      %f = op.tanh %q : !t -> !t
      op.yield_wave %e, %f : !t, !t
    }
    plan.yield %v, %w : !t, !t
  }
}
