// RUN: penstock-opt %s -p regst-alias-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p regst-alias-registers,regst-alias-registers --split-input-file | filecheck %s

// Each rule by which a pair of an operand and a result is not used. Variables are never
// written over, and operands of another type neither.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

// CHECK-LABEL: plan.plan @variable
// CHECK:         regst.register "a" slots 1 on <0, host> {no_alias = "variable: 'w' is one"}
// CHECK:         regst.register "b" slots 1 on <0, host> {no_alias = "type: it is not that of the operand"}
plan.plan @variable {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 1 on <0, host> : !regst.data<tensor<2xi32>>
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%w : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !regst.data<tensor<2xi32>>) {
  ^bb0(%0: !t):
    %v = op.cast %0 to i32 : !t -> tensor<2xi32>
    plan.yield %v : tensor<2xi32>
  }
}

// -----

// Some memory serves as that of both, and the operand has as many slots at least; what
// has fewer gets as many.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

// CHECK-LABEL: plan.plan @memory
// CHECK:         %[[X:.+]] = regst.register "x" slots 2 on <0, host>
// CHECK-NEXT:    regst.register "p" slots 2 on <0, device cuda:0> {no_alias = "memory: 'x' lies in another one"}
// CHECK-NEXT:    regst.register "a" alias %[[X]] : !regst.data<tensor<2xf32>> slots 2
// CHECK-NEXT:    regst.register "b" slots 3 on <0, host> {no_alias = "slots: 3 of them do not fit into 2"}
plan.plan @memory {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %p = regst.register "p" slots 2 on <0, device cuda:0> : !r
  %a = regst.register "a" slots 1 on <0, host> : !r
  %b = regst.register "b" slots 3 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "p" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%p : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%b : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
}

// -----

// The slots of a part would have to start where those of the whole do.

!r = !regst.data<tensor<64xf32>>
!p = !regst.data<tensor<2xf32>>

// CHECK-LABEL: plan.plan @slots
// CHECK:         regst.register "s" slots 1 on <0, host> {no_alias = "slots: those of 'x' are larger"}
plan.plan @slots {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %s = regst.register "s" slots 1 on <0, host> : !p
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<64xf32>
    plan.yield %v : tensor<64xf32>
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%s : !p) {
  ^bb0(%0: tensor<64xf32>):
    %v = op.slice %0 from [2] to [4] by [1] : tensor<64xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
}

// -----

// A device reads 16 bytes at once. Of a split all results are parts, or none.

!r = !regst.data<tensor<8xf32>>
!p = !regst.data<tensor<2xf32>>
!q = !regst.data<tensor<6xf32>>

// CHECK-LABEL: plan.plan @alignment
// CHECK:         regst.register "p" slots 1 on <0, device cuda:0> {no_alias = "alignment: byte 8 is no multiple of 16"}
// CHECK:         regst.register "q" slots 1 on <0, device cuda:0> {no_alias = "alignment: byte 8 is no multiple of 16"}
plan.plan @alignment {
  %x = regst.register "x" slots 1 on <0, device cuda:0> : !r
  %p = regst.register "p" slots 1 on <0, device cuda:0> : !p
  %q = regst.register "q" slots 1 on <0, device cuda:0> : !q
  plan.task "x" on <0, cuda:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = "test.op"() : () -> tensor<8xf32>
    plan.yield %v : tensor<8xf32>
  }
  plan.task "s" on <0, cuda:0> stream <compute, 0> ins(%x : !r) outs(%p, %q : !p, !q) {
  ^bb0(%0: tensor<8xf32>):
    %v, %w = op.split %0 axis 0 sizes [2, 6] : tensor<8xf32> -> tensor<2xf32>, tensor<6xf32>
    plan.yield %v, %w : tensor<2xf32>, tensor<6xf32>
  }
}

// -----

// An op that reads a tensor as a whole and as a row cannot write over the row's bytes,
// whatever the row is called.

!r = !regst.data<tensor<1x2xf32>>
!w = !regst.data<tensor<2x2xf32>>

// CHECK-LABEL: plan.plan @operand
// CHECK:         regst.register "a" slots 1 on <0, host> {no_alias = "operand: operand 1 is read there too"}
plan.plan @operand {
  %x = regst.register "x" slots 1 on <0, host> : !w
  %s = regst.register "s" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !w
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !w) {
    %v = job.input "x" : tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
  plan.task "s" on <0, cpu:0> stream <compute, 0> ins(%x : !w) outs(%s : !r) {
  ^bb0(%0: tensor<2x2xf32>):
    %v = op.slice %0 from [1, 0] to [2, 2] by [1, 1] : tensor<2x2xf32> -> tensor<1x2xf32>
    plan.yield %v : tensor<1x2xf32>
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x, %s : !w, !r) outs(%a : !w) {
  ^bb0(%0: tensor<2x2xf32>, %1: tensor<1x2xf32>):
    %v = op.add %0, %1 : tensor<2x2xf32>, tensor<1x2xf32> -> tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
}

// -----

// Nobody may read the bytes later, under whatever name: `late` reads those of `x` as
// `y`. A task of another stream that nothing orders may be late too.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>

// CHECK-LABEL: plan.plan @reader
// CHECK:         %[[X:.+]] = regst.register "x"
// CHECK:         regst.register "y" alias %[[X]]
// CHECK:         regst.register "z" slots 1 on <0, host> {no_alias = "reader: 'late' may read it later"}
// CHECK:         regst.register "u" slots 1 on <0, host> {no_alias = "reader: 'beside' may read it later"}
plan.plan @reader {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !regst.data<tensor<2x1xf32>>
  %z = regst.register "z" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : !t
    plan.yield %v : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !regst.data<tensor<2x1xf32>>) {
  ^bb0(%0: !t):
    %v = op.reshape %0 to [2, 1] : !t -> tensor<2x1xf32>
    plan.yield %v : tensor<2x1xf32>
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%z : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
  plan.task "late" on <0, cpu:0> stream <compute, 0> ins(%y : !regst.data<tensor<2x1xf32>>) {
  ^bb0(%0: tensor<2x1xf32>):
    job.output "y", %0 : tensor<2x1xf32>
    plan.yield
  }
  plan.task "beside" on <0, cpu:0> stream <compute, 1> ins(%z : !r) {
  ^bb0(%0: !t):
    job.output "z", %0 : !t
    plan.yield
  }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins(%z : !r) outs(%u : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
}

// -----

// A part of a large tensor would keep all of it for as long as the part is used.

!r = !regst.data<tensor<1024xf32>>
!p = !regst.data<tensor<16xf32>>

// CHECK-LABEL: plan.plan @peak
// CHECK:         regst.register "p" slots 1 on <0, host> {no_alias = "peak: 8192 bytes would be in use at once instead of 4160"}
plan.plan @peak {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %p = regst.register "p" slots 1 on <0, host> : !p
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<1024xf32>
    plan.yield %v : tensor<1024xf32>
  }
  plan.task "p" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%p : !p) {
  ^bb0(%0: tensor<1024xf32>):
    %v = op.slice %0 from [16] to [32] by [1] : tensor<1024xf32> -> tensor<16xf32>
    plan.yield %v : tensor<16xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : tensor<1024xf32>
    plan.yield %v : tensor<1024xf32>
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%p : !p) {
  ^bb0(%0: tensor<16xf32>):
    job.output "z", %0 : tensor<16xf32>
    plan.yield
  }
}

// -----

// Views of one register are refused together, too, if they are only a part of what they would
// keep: of "x" an eighth is used while there is "y".

!r = !regst.data<tensor<1024xf32>>
!p = !regst.data<tensor<64xf32>>

// CHECK-LABEL: plan.plan @peak_of_all
// CHECK:         regst.register "p" slots 1 on <0, host> {no_alias = "peak: 8448 bytes would be in use at once instead of 4608"}
// CHECK:         regst.register "q" slots 1 on <0, host> {no_alias = "peak: 8448 bytes would be in use at once instead of 4608"}
plan.plan @peak_of_all {
  %x = regst.register "x" slots 1 on <0, host> : !r
  %p = regst.register "p" slots 1 on <0, host> : !p
  %q = regst.register "q" slots 1 on <0, host> : !p
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<1024xf32>
    plan.yield %v : tensor<1024xf32>
  }
  plan.task "p" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%p : !p) {
  ^bb0(%0: tensor<1024xf32>):
    %v = op.slice %0 from [0] to [64] by [1] : tensor<1024xf32> -> tensor<64xf32>
    plan.yield %v : tensor<64xf32>
  }
  plan.task "q" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%q : !p) {
  ^bb0(%0: tensor<1024xf32>):
    %v = op.slice %0 from [64] to [128] by [1] : tensor<1024xf32> -> tensor<64xf32>
    plan.yield %v : tensor<64xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins() outs(%y : !r) {
    %v = job.input "y" : tensor<1024xf32>
    plan.yield %v : tensor<1024xf32>
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%p, %q : !p, !p) {
  ^bb0(%0: tensor<64xf32>, %1: tensor<64xf32>):
    job.output "z", %0 : tensor<64xf32>
    plan.yield
  }
}

// -----

// Operands of a concatenation are moved all or none: no variables, nothing that is only
// a part of something, nothing twice, and nothing that is overwritten later.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>
!w = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @gather
// CHECK:         regst.register "a" slots 1 on <0, host> {no_alias = "variable: 'w' is one"}
// CHECK:         regst.register "b" slots 1 on <0, host> {no_alias = "part: 'h' is a part of 'l'"}
// CHECK:         regst.register "c" slots 1 on <0, host> {no_alias = "twice: two operands lie on the same bytes"}
// CHECK:         regst.register "d" slots 1 on <0, host> {no_alias = "reader: 'e' writes over 'x'"}
// CHECK:         regst.register "e" alias
plan.plan @gather {
  %w = regst.register "w" slots 1 on <0, host> : !r
  %l = regst.register "l" slots 1 on <0, host> : !w
  %h = regst.register "h" slots 1 on <0, host> : !r
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !w
  %b = regst.register "b" slots 1 on <0, host> : !w
  %c = regst.register "c" slots 1 on <0, host> : !w
  %d = regst.register "d" slots 1 on <0, host> : !w
  %e = regst.register "e" slots 1 on <0, host> : !r
  plan.task "w" on <0, cpu:0> stream <compute, 0> ins() outs(%w : !r) {
    %v = job.variable "w" init <zeros> : !t
    plan.yield %v : !t
  }
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x, %y, %l : !r, !r, !w) {
    %u, %v, %m = "test.op"() : () -> (!t, !t, tensor<4xf32>)
    plan.yield %u, %v, %m : !t, !t, tensor<4xf32>
  }
  plan.task "h" on <0, cpu:0> stream <compute, 0> ins(%l : !w) outs(%h : !r) {
  ^bb0(%0: tensor<4xf32>):
    %v = op.slice %0 from [0] to [2] by [1] : tensor<4xf32> -> !t
    plan.yield %v : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%w, %x : !r, !r) outs(%a : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%h, %x : !r, !r) outs(%b : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%y : !r) outs(%c : !w) {
  ^bb0(%0: !t):
    %v = op.concat %0, %0 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "d" on <0, cpu:0> stream <compute, 0> ins(%y, %x : !r, !r) outs(%d : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %v : tensor<4xf32>
  }
  plan.task "e" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%e : !r) {
  ^bb0(%0: !t):
    %v = op.relu %0 : !t -> !t
    plan.yield %v : !t
  }
}

// -----

// Nor what has several slots, what others read after the result has been overwritten,
// and what is read while it is.

!r = !regst.data<tensor<1x2xf32>>
!t = tensor<1x2xf32>
!w = !regst.data<tensor<2x2xf32>>

// CHECK-LABEL: plan.plan @overwritten
// CHECK:         regst.register "a" slots 1 on <0, host> {no_alias = "slots: 2 of them cannot be parts"}
// CHECK:         %[[B:.+]] = regst.register "b" slots 1 on <0, host> {no_alias = "reader: 'late' may read it later"}
// CHECK:         regst.register "over" alias %[[B]]
// CHECK:         %[[C:.+]] = regst.register "c" slots 1 on <0, host> {no_alias = "operand: 'sum' reads it and writes over it"}
// CHECK:         regst.register "sum" alias %[[C]]
plan.plan @overwritten {
  %s = regst.register "s" slots 2 on <0, host> : !r
  %x = regst.register "x" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  %z = regst.register "z" slots 1 on <0, host> : !r
  %u = regst.register "u" slots 1 on <0, host> : !r
  %a = regst.register "a" slots 1 on <0, host> : !w
  %b = regst.register "b" slots 1 on <0, host> : !w
  %over = regst.register "over" slots 1 on <0, host> : !w
  %c = regst.register "c" slots 1 on <0, host> : !w
  %sum = regst.register "sum" slots 1 on <0, host> : !w
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%s, %x, %y, %z, %u : !r, !r, !r, !r, !r) {
    %0, %1, %2, %3, %4 = "test.op"() : () -> (!t, !t, !t, !t, !t)
    plan.yield %0, %1, %2, %3, %4 : !t, !t, !t, !t, !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x, %s : !r, !r) outs(%a : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
  plan.task "b" on <0, cpu:0> stream <compute, 0> ins(%x, %y : !r, !r) outs(%b : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
  plan.task "over" on <0, cpu:0> stream <compute, 0> ins(%b : !w) outs(%over : !w) {
  ^bb0(%0: tensor<2x2xf32>):
    %v = op.relu %0 : tensor<2x2xf32> -> tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
  plan.task "late" on <0, cpu:0> stream <compute, 0> ins(%y : !r) {
  ^bb0(%0: !t):
    job.output "y", %0 : !t
    plan.yield
  }
  plan.task "c" on <0, cpu:0> stream <compute, 0> ins(%z, %u : !r, !r) outs(%c : !w) {
  ^bb0(%0: !t, %1: !t):
    %v = op.concat %0, %1 axis 0 : !t, !t -> tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
  plan.task "sum" on <0, cpu:0> stream <compute, 0> ins(%z, %c : !r, !w) outs(%sum : !w) {
  ^bb0(%0: !t, %1: tensor<2x2xf32>):
    %v = op.add %0, %1 : !t, tensor<2x2xf32> -> tensor<2x2xf32>
    plan.yield %v : tensor<2x2xf32>
  }
}

// -----

// A plan whose registers have places is left alone.

!r = !regst.data<tensor<2xf32>>

// CHECK-LABEL: plan.plan @left_alone
// CHECK:         regst.register "x" in
// CHECK-NEXT:    regst.register "y" slots 1 on <0, host> : !regst.data<tensor<2xf32>>
plan.plan @left_alone {
  %c = regst.chunk on <0, host> size 64
  %b = regst.block in %c at 0 size 64
  %x = regst.register "x" in %b at 0 slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 on <0, host> : !r
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %v = job.input "x" : tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%y : !r) {
  ^bb0(%0: tensor<2xf32>):
    %v = op.relu %0 : tensor<2xf32> -> tensor<2xf32>
    plan.yield %v : tensor<2xf32>
  }
}

// -----

// What several jobs share lies on nothing, and only views lie on it.

!r = !regst.data<tensor<2xf32>>
!t = tensor<2xf32>
!m = !regst.data<tensor<2x1xf32>>
!n = !regst.data<tensor<4xf32>>

// CHECK-LABEL: plan.plan @interface
// CHECK:         %[[X:.+]] = regst.register "x" slots 1 interface "x" on <0, host> :
// CHECK-NEXT:    regst.register "v" alias %[[X]]
// CHECK-NEXT:    regst.register "a" slots 1 on <0, host> {no_alias = "interface: only its task writes 'x'"}
// CHECK-NEXT:    regst.register "y" slots 1 interface "y" on <0, host> {no_alias = "interface: 'y' has bytes of its own"}
// CHECK-NEXT:    regst.register "z" slots 1 interface "z" on <0, host> {no_alias = "interface: only its task writes 'z'"}
plan.plan @interface {
  %x = regst.register "x" slots 1 interface "x" on <0, host> : !r
  %v = regst.register "v" slots 1 on <0, host> : !m
  %a = regst.register "a" slots 1 on <0, host> : !r
  %y = regst.register "y" slots 1 interface "y" on <0, host> : !r
  %z = regst.register "z" slots 1 interface "z" on <0, host> : !n
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "v" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%v : !m) {
  ^bb0(%0: !t):
    %1 = op.reshape %0 to [2, 1] : !t -> tensor<2x1xf32>
    plan.yield %1 : tensor<2x1xf32>
  }
  plan.task "u" on <0, cpu:0> stream <compute, 0> ins(%v : !m) {
  ^bb0(%0: tensor<2x1xf32>):
    job.output "u", %0 : tensor<2x1xf32>
    plan.yield
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "y" on <0, cpu:0> stream <compute, 0> ins(%a : !r) outs(%y : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
  plan.task "z" on <0, cpu:0> stream <compute, 0> ins(%a, %y : !r, !r) outs(%z : !n) {
  ^bb0(%0: !t, %1: !t):
    %2 = op.concat %0, %1 axis 0 : !t, !t -> tensor<4xf32>
    plan.yield %2 : tensor<4xf32>
  }
}

// -----

// What no task uses comes along with what it lies on.

!r = !regst.data<tensor<4xf32>>
!h = !regst.data<tensor<2xf32>>
!t = tensor<4xf32>

// CHECK-LABEL: plan.plan @unused
// CHECK:         %[[X:.+]] = regst.register "x" slots 2
// CHECK-NEXT:    regst.register "a" alias %[[X]] : !regst.data<tensor<4xf32>> slots 2
// CHECK-NEXT:    regst.register "u" alias %[[X]] : !regst.data<tensor<4xf32>> at 4 slots 2
plan.plan @unused {
  %x = regst.register "x" slots 2 on <0, host> : !r
  %a = regst.register "a" slots 2 on <0, host> : !r
  %u = regst.register "u" alias %a : !r at 4 slots 2 on <0, host> : !h
  plan.task "x" on <0, cpu:0> stream <compute, 0> ins() outs(%x : !r) {
    %1 = job.input "x" : !t
    plan.yield %1 : !t
  }
  plan.task "a" on <0, cpu:0> stream <compute, 0> ins(%x : !r) outs(%a : !r) {
  ^bb0(%0: !t):
    %1 = op.relu %0 : !t -> !t
    plan.yield %1 : !t
  }
}
