// RUN: penstock-opt %s | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | penstock-opt | filecheck %s
// RUN: penstock-opt %s --print-op-generic | filecheck %s --check-prefix=GENERIC

// A chunk lies in one memory case: `host` and `network` of a rank, `device` and
// `pinned` of a device, which may be registered for the network, too.

// CHECK: %[[HOST:.+]] = regst.chunk on <0, host> size 983040
// GENERIC: "regst.chunk"() <{memory_case = #regst.memory_case<0, host>, size = 983040 : i64}>
%host = regst.chunk on <0, host> size 983040
// CHECK-NEXT: regst.chunk on <1, network> size 0
%network = regst.chunk on <1, network> size 0
// CHECK-NEXT: %[[DEVICE:.+]] = regst.chunk on <0, device cuda:1> size 4096
%device = regst.chunk on <0, device cuda:1> size 4096
// CHECK-NEXT: regst.chunk on <0, pinned cuda:1> size 64
%pinned = regst.chunk on <0, pinned cuda:1> size 64
// CHECK-NEXT: regst.chunk on <0, pinned_network cuda:1> size 64
%both = regst.chunk on <0, pinned_network cuda:1> size 64

// What a block would take without sharing and at least is optional, as is either.

// CHECK-NEXT: %[[BLOCK:.+]] = regst.block in %[[HOST]] at 0 size 262144 sum 524288 bound 262144
%block = regst.block in %host at 0 size 262144 sum 524288 bound 262144
// CHECK-NEXT: regst.block in %[[HOST]] at 262144 size 64 bound 60
%bound = regst.block in %host at 262144 size 64 bound 60
// CHECK-NEXT: %[[END:.+]] = regst.block in %[[DEVICE]] at 3584 size 512{{$}}
%end = regst.block in %device at 3584 size 512

// A register lies in a block, over another register, or nowhere yet.

// CHECK-NEXT: %[[X:.+]] = regst.register "x" in %[[BLOCK]] at 0 slots 2 on <0, host> : !regst.data<tensor<4xf32>>
%x = regst.register "x" in %block at 0 slots 2 on <0, host> : !regst.data<tensor<4xf32>>
// CHECK-NEXT: regst.register "y/out" alias %[[X]] : !regst.data<tensor<4xf32>> slots 2 on <0, host> : !regst.data<tensor<2x2xf32>>
%y = regst.register "y/out" alias %x : !regst.data<tensor<4xf32>> slots 2 on <0, host> : !regst.data<tensor<2x2xf32>>
// CHECK-NEXT: regst.register "p/out" alias %[[X]] : !regst.data<tensor<4xf32>> slots 8 on <0, host> : !regst.data<tensor<1xf32>>
%rows = regst.register "p/out" alias %x : !regst.data<tensor<4xf32>> slots 8 on <0, host> : !regst.data<tensor<1xf32>>
// CHECK-NEXT: regst.register "z/out" alias %[[X]] : !regst.data<tensor<4xf32>> at 8 slots 2 on <0, host> : !regst.data<tensor<2xf32>>
%part = regst.register "z/out" alias %x : !regst.data<tensor<4xf32>> at 8 slots 2 on <0, host> : !regst.data<tensor<2xf32>>
// CHECK-NEXT: regst.register "z" slots 1 on <0, pinned cuda:0> : !regst.data<tensor<f64>>
%z = regst.register "z" slots 1 on <0, pinned cuda:0> : !regst.data<tensor<f64>>

// A control register holds nothing, and may start with full slots.

// CHECK-NEXT: regst.register "turn" slots 1 initial 1 on <0, host> : !regst.control
%turn = regst.register "turn" slots 1 initial 1 on <0, host> : !regst.control
// CHECK-NEXT: regst.register "go" slots 3 on <0, host> : !regst.control
%go = regst.register "go" slots 3 on <0, host> : !regst.control

// Slots follow each other at multiples of the alignment, which the last one need not
// fill: two of 16 bytes end at 512 + 16 in a device's memory, at 64 + 16 in a host's.

%c = regst.chunk on <0, device cuda:0> size 528
%b = regst.block in %c at 0 size 528
// CHECK: regst.register "two"
%two = regst.register "two" in %b at 0 slots 2 on <0, device cuda:0> : !regst.data<tensor<4xf32>>
%c_host = regst.chunk on <0, host> size 80
%b_host = regst.block in %c_host at 0 size 80
// CHECK: regst.register "two_host"
%two_host = regst.register "two_host" in %b_host at 0 slots 2 on <0, host> : !regst.data<tensor<4xf32>>

// An i1 takes a byte.

%c_i1 = regst.chunk on <0, host> size 3
%b_i1 = regst.block in %c_i1 at 0 size 3
// CHECK: regst.register "flags"
%flags = regst.register "flags" in %b_i1 at 0 slots 1 on <0, host> : !regst.data<tensor<3xi1>>

// An interface is what several jobs know by one name.

// CHECK: regst.register "i" slots 1 interface "i" on <0, host> : !regst.data<tensor<4xf32>>
%i = regst.register "i" slots 1 interface "i" on <0, host> : !regst.data<tensor<4xf32>>

// A register of dynamic shape has the bytes of its maximum, in each slot: 2 x 4 x 4 of them,
// twice, 64 apart. Its header has a word for each axis.

%c_max = regst.chunk on <0, host> size 208
%b_max = regst.block in %c_max at 0 size 96
%b_header = regst.block in %c_max at 128 size 80
// CHECK: regst.register "d" in %{{.+}} at 0 slots 2 on <0, host> : !regst.data<tensor<?x4xf32>, max [2, 4]>
// GENERIC: !regst.data<tensor<?x4xf32>, max [2, 4]>
%d = regst.register "d" in %b_max at 0 slots 2 on <0, host> : !regst.data<tensor<?x4xf32>, max [2, 4]>
// CHECK-NEXT: regst.register "d/header" in %{{.+}} at 0 slots 2 header "d" on <0, host> : !regst.data<tensor<2xi64>>
%d_header = regst.register "d/header" in %b_header at 0 slots 2 header "d" on <0, host> : !regst.data<tensor<2xi64>>
// CHECK-NEXT: regst.register "none"
%none = regst.register "none" slots 1 on <0, host> : !regst.data<tensor<?xf32>, max [0]>
