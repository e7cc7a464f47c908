// RUN: penstock-opt %s -p verify-plan --verify-diagnostics --split-input-file | filecheck %s

// Jobs that exclude each other share bytes. So do the registers of one interface, whether
// their jobs exclude each other or not.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

// CHECK-LABEL: plan.plan @exclusive
plan.plan @exclusive exclusive [["a", "b"]] {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %y = regst.register "y" in %m at 0 slots 1 on <0, host> : !r
  %i = regst.register "i" in %m at 64 slots 1 interface "i" on <0, host> : !r
  %j = regst.register "j" in %m at 64 slots 1 interface "i" on <0, host> : !r
  %k = regst.register "k" in %m at 64 slots 1 interface "i" on <0, host> : !r
  plan.task "x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "i" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "j" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%j : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "k" job "c" on <0, cpu:0> stream <compute, 0> ins() outs(%k : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

// Jobs that do not exclude each other share none: all those that share bytes with what
// starts before them are named.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

plan.plan @parallel exclusive [["a", "b"]] {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %y = regst.register "y" in %m at 0 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'x' and 'z' share bytes, but jobs 'a' and 'c' may run at the same time}}
  %z = regst.register "z" in %m at 0 slots 1 on <0, host> : !r
  %apart = regst.register "apart" in %m at 64 slots 1 on <0, host> : !r
  plan.task "x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "z" job "c" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "apart" job "c" on <0, cpu:0> stream <compute, 0> ins() outs(%apart : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

// Within a job the order of tasks decides, whatever other jobs do with the bytes.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

plan.plan @within exclusive [["a", "b"]] {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %y = regst.register "y" in %m at 0 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'x' and 'z' share 64 bytes, but task 'x' may use 'x' after task 'z' has begun to write 'z'}}
  %z = regst.register "z" in %m at 0 slots 1 on <0, host> : !r
  plan.task "x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "z" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

// Variables and interfaces last from run to run, so that not even a job that excludes theirs,
// or their own one, uses their bytes.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

plan.plan @lasting exclusive [["a", "b"]] {
  %c = regst.chunk on <0, host> size 192
  %m = regst.block in %c at 0 size 192
  %q = regst.register "q" in %m at 0 slots 1 on <0, host> : !r
  %w = regst.register "w" in %m at 64 slots 1 on <0, host> : !r
  %i = regst.register "i" in %m at 128 slots 1 interface "i" on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'q' and 'x' share bytes, but 'q' lasts from run to run}}
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'w' and 'y' share bytes, but 'w' lasts from run to run}}
  %y = regst.register "y" in %m at 64 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'w' and 'u' share 64 bytes, but 'w' lasts from run to run}}
  %u = regst.register "u" in %m at 64 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'i' and 'z' share bytes, but 'i' lasts from run to run}}
  %z = regst.register "z" in %m at 128 slots 1 on <0, host> : !r
  plan.task "q" on <0, cpu:0> stream <compute, 0> ins() outs(%q : !r) {
    %v = job.variable "q" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "w" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "i" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "u" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%u : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "x" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "z" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%z : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

// An interface lies in one place, and no other register of its own job lies on it.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

plan.plan @torn exclusive [["a", "b"]] {
  %c = regst.chunk on <0, host> size 192
  %m = regst.block in %c at 0 size 192
  %i = regst.register "i" in %m at 0 slots 1 interface "i" on <0, host> : !r
  // expected-error@+1 {{verify-plan: registers 'i' and 'j' are interface 'i', but lie apart}}
  %j = regst.register "j" in %m at 64 slots 1 interface "i" on <0, host> : !r
  // expected-error@+2 {{verify-plan: registers 'i' and 'x' share bytes, but 'i' lasts from run to run}}
  // expected-error@+1 {{verify-plan: registers 'i' and 'x' share 64 bytes, but task 'ii' may use 'i' after task 'ii' has begun to write 'x'}}
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  plan.task "i" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%i : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "j" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%j : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  plan.task "ii" job "a" on <0, cpu:0> stream <compute, 0> ins(%i : !r) outs(%x : !r) {
  ^bb0(%0: !t):
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
}

// -----

// Tasks use registers of their own job, or variables; so do aliases.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

plan.plan @foreign exclusive [["a", "b"]] {
  %c = regst.chunk on <0, host> size 128
  %m = regst.block in %c at 0 size 128
  %x = regst.register "x" in %m at 0 slots 1 on <0, host> : !r
  %w = regst.register "w" in %m at 64 slots 1 on <0, host> : !r
  // expected-error@+1 {{verify-plan: register 'y' of job 'b' is an alias of 'x' of job 'a'}}
  %y = regst.register "y" alias %x : !r slots 1 on <0, host> : !r
  %q = regst.register "q" alias %w : !r slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: task 'y' of job 'b' uses register 'x' of job 'a'}}
  plan.task "y" job "b" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: !t):
    %v = op.reshape %0 to [16] : !t -> !t
    plan.yield %v : !t
  }
  plan.task "q" job "b" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%q : !r) {
  ^bb0(%0: !t):
    %1 = op.reshape %0 to [16] : !t -> !t
    plan.yield %1 : !t
  }
}

// -----

// Nothing is written over an interface, which is true of a plan of one job as well.

!r = !regst.data<tensor<16xf32>>
!t = tensor<16xf32>

plan.plan @overwritten {
  %c = regst.chunk on <0, host> size 64
  %m = regst.block in %c at 0 size 64
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, host> : !r
  %a = regst.register "a" alias %x : !r slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> !t
    plan.yield %v : !t
  }
  // expected-error@+1 {{verify-plan: task 'a' writes 'a' over interface 'x'}}
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
}

// -----

// Headers last, too, and that of an interface lies in one place.

!d = !regst.data<tensor<?xf32>, max [16]>
!h = !regst.data<tensor<1xi64>>

plan.plan @headers exclusive [["a", "b"]] {
  %c = regst.chunk on <0, host> size 320
  %m = regst.block in %c at 0 size 320
  %x = regst.register "x" in %m at 0 slots 1 interface "x" on <0, host> : !d
  %0 = regst.register "x/header" in %m at 64 slots 1 header "x" on <0, host> : !h
  %y = regst.register "y" in %m at 0 slots 1 interface "x" on <0, host> : !d
  // expected-error@+1 {{verify-plan: registers 'x/header' and 'y/header' are interface 'x header', but lie apart}}
  %1 = regst.register "y/header" in %m at 128 slots 1 header "y" on <0, host> : !h
  // expected-error@+1 {{verify-plan: registers 'y/header' and 'z' share bytes, but 'y/header' lasts from run to run}}
  %z = regst.register "z" in %m at 128 slots 1 on <0, host> : !h
  %d = regst.register "d" in %m at 192 slots 1 on <0, host> : !d
  %2 = regst.register "d/header" in %m at 256 slots 1 header "d" on <0, host> : !h
  // expected-error@+1 {{verify-plan: registers 'd/header' and 'e' share bytes, but 'd/header' lasts from run to run}}
  %e = regst.register "e" in %m at 256 slots 1 on <0, host> : !h
  plan.task "x" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %z, %e : !d, !h, !h) {
    %v, %w, %u = "test.op"() : () -> (tensor<?xf32>, tensor<1xi64>, tensor<1xi64>)
    plan.yield %v, %w, %u : tensor<?xf32>, tensor<1xi64>, tensor<1xi64>
  }
  plan.task "d" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%d : !d) {
    %v = "test.op"() : () -> tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
  plan.task "y" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !d) {
    %v = "test.op"() : () -> tensor<?xf32>
    plan.yield %v : tensor<?xf32>
  }
}

// -----

// Jobs of which each takes what another one makes can never run. One that waits for them is
// no part of the ring.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

plan.plan @ring {
  %dr = regst.register "dr" slots 1 on <0, host> : !r
  %ap = regst.register "ap" slots 1 on <0, host> : !r
  %br = regst.register "br" slots 1 on <0, host> : !r
  %cq = regst.register "cq" slots 1 on <0, host> : !r
  plan.task "d/r" job "d" on <0, cpu:0> stream <compute, 0> ins() outs(%dr : !r) {
    %v = job.input "r" : !t
    plan.yield %v : !t
  }
  plan.task "d/s" job "d" on <0, cpu:0> stream <compute, 0> ins(%dr : !r) {
  ^bb0(%v: !t):
    job.output "s", %v : !t
    plan.yield
  }
  // expected-error@+1 {{verify-plan: jobs wait for each other for ever: 'a' takes 'p' of 'c', 'c' takes 'q' of 'b', 'b' takes 'r' of 'a'}}
  plan.task "a/p" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%ap : !r) {
    %v = job.input "p" : !t
    plan.yield %v : !t
  }
  plan.task "a/r" job "a" on <0, cpu:0> stream <compute, 0> ins(%ap : !r) {
  ^bb0(%v: !t):
    job.output "r", %v : !t
    plan.yield
  }
  plan.task "b/r" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%br : !r) {
    %v = job.input "r" : !t
    plan.yield %v : !t
  }
  plan.task "b/q" job "b" on <0, cpu:0> stream <compute, 0> ins(%br : !r) {
  ^bb0(%v: !t):
    job.output "q", %v : !t
    plan.yield
  }
  plan.task "c/q" job "c" on <0, cpu:0> stream <compute, 0> ins() outs(%cq : !r) {
    %v = job.input "q" : !t
    plan.yield %v : !t
  }
  plan.task "c/p" job "c" on <0, cpu:0> stream <compute, 0> ins(%cq : !r) {
  ^bb0(%v: !t):
    job.output "p", %v : !t
    plan.yield
  }
}

// -----

// Whatever may begin with what a job outside of the ring makes can run.

!r = !regst.data<tensor<4xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @begins
plan.plan @begins {
  %fx = regst.register "fx" slots 1 on <0, host> : !r
  %ap = regst.register "ap" slots 1 on <0, host> : !r
  %bq = regst.register "bq" slots 1 on <0, host> : !r
  plan.task "f/x" job "f" on <0, cpu:0> stream <compute, 0> ins() outs(%fx : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "f/p" job "f" on <0, cpu:0> stream <compute, 0> ins(%fx : !r) {
  ^bb0(%v: !t):
    job.output "p", %v : !t
    plan.yield
  }
  plan.task "a/p" job "a" on <0, cpu:0> stream <compute, 0> ins() outs(%ap : !r) {
    %v = job.input "p" : !t
    plan.yield %v : !t
  }
  plan.task "a/q" job "a" on <0, cpu:0> stream <compute, 0> ins(%ap : !r) {
  ^bb0(%v: !t):
    job.output "q", %v : !t
    plan.yield
  }
  plan.task "b/q" job "b" on <0, cpu:0> stream <compute, 0> ins() outs(%bq : !r) {
    %v = job.input "q" : !t
    plan.yield %v : !t
  }
  plan.task "b/p" job "b" on <0, cpu:0> stream <compute, 0> ins(%bq : !r) {
  ^bb0(%v: !t):
    job.output "p", %v : !t
    plan.yield
  }
}
