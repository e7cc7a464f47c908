// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{rank must not be negative, got -1}}
%c = regst.chunk on <-1, host> size 64

// -----

// expected-error@+1 {{unknown memory kind 'swap', expected one of device, host, network, pinned, pinned_network}}
%c = regst.chunk on <0, swap> size 64

// -----

// expected-error@+1 {{device memory needs a device}}
%c = regst.chunk on <0, device> size 64

// -----

// expected-error@+1 {{pinned memory needs a device}}
%c = regst.chunk on <0, pinned> size 64

// -----

// expected-error@+1 {{host memory takes no device}}
%c = regst.chunk on <0, host cuda:0> size 64

// -----

// expected-error@+1 {{device memory is of a device that is no cpu, got #job.device<0, cpu:0>}}
%c = regst.chunk on <0, device cpu:0> size 64

// -----

// expected-error@+1 {{pinned memory is of a device that is no cpu, got #job.device<0, cpu:1>}}
%c = regst.chunk on <0, pinned cpu:1> size 64

// -----

// expected-error@+1 {{pinned_network memory needs a device}}
%c = regst.chunk on <0, pinned_network> size 64

// -----

// expected-error@+1 {{a register's payload must have a static shape or a maximum, got tensor<?xf32>}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<?xf32>>

// -----

// expected-error@+1 {{tensor<4xf32> is static and takes no maximum}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>, max [4]>

// -----

// expected-error@+1 {{the maximum [4, 1] is no shape of tensor<?xf32>}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<?xf32>, max [4, 1]>

// -----

// expected-error@+1 {{the maximum [8, 5] is no shape of tensor<?x4xf32>}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<?x4xf32>, max [8, 5]>

// -----

// expected-error@+1 {{the maximum [-1] is no shape of tensor<?xf32>}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<?xf32>, max [-1]>

// -----

// expected-error@+1 {{a register's payload must be smaller than 2^62 bytes, got 4611686018427387904 of tensor<?x?xf32>}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<?x?xf32>, max [1073741824, 1073741824]>

// -----

// expected-error@+1 {{a register's payload must have elements of a fixed size, got index}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xindex>>

// -----

// expected-error@+1 {{a register's payload must be smaller than 2^62 bytes, got 399999999999999999996 of tensor<99999999999999999999xf32>}}
%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<99999999999999999999xf32>>

// -----

// expected-error@+1 {{a chunk must be smaller than 2^62 bytes, got 4611686018427387904}}
%c = regst.chunk on <0, host> size 4611686018427387904

// -----

// expected-error@+1 {{expected integer >= 0, got -4}}
%c = regst.chunk on <0, host> size -4

// -----

// expected-error@+1 {{expected integer >= 1, got 0}}
%x = regst.register "x" slots 0 on <0, host> : !regst.control

// -----

%c = regst.chunk on <0, host> size 96
// expected-error@+1 {{regst.block: the block ends at byte 128, past the chunk's 96}}
%b = regst.block in %c at 64 size 64

// -----

%c = regst.chunk on <0, host> size 128
// expected-error@+1 {{regst.block: the block starts at byte 32, not at a multiple of 64}}
%b = regst.block in %c at 32 size 64

// -----

// A device asks for more than a host.

%c = regst.chunk on <0, device cuda:0> size 1024
// expected-error@+1 {{regst.block: the block starts at byte 64, not at a multiple of 512}}
%b = regst.block in %c at 64 size 64

// -----

%c = regst.chunk on <0, host> size 64
%b = regst.block in %c at 0 size 64
// expected-error@+1 {{regst.register: a register needs both a block and an offset in it}}
%x = "regst.register"(%b) <{register_name = "x", slots = 1 : i64, memory_case = #regst.memory_case<0, host>, operandSegmentSizes = array<i32: 1, 0>}> : (!regst.block) -> !regst.data<tensor<4xf32>>

// -----

// expected-error@+1 {{regst.register: only a control register has initial slots}}
%x = regst.register "x" slots 1 initial 1 on <0, host> : !regst.data<tensor<4xf32>>

// -----

%c = regst.chunk on <0, host> size 64
%b = regst.block in %c at 0 size 64
// expected-error@+1 {{regst.register: a control register lies nowhere}}
%k = regst.register "k" in %b at 0 slots 1 on <0, host> : !regst.control

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: a control register lies nowhere}}
%k = regst.register "k" alias %x : !regst.data<tensor<4xf32>> slots 1 on <0, host> : !regst.control

// -----

// expected-error@+1 {{regst.register: 3 slots are full at the start, but there are only 2}}
%k = regst.register "k" slots 2 initial 3 on <0, host> : !regst.control

// -----

%c = regst.chunk on <0, host> size 64
%b = regst.block in %c at 0 size 64
%x = regst.register "x" in %b at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: an alias lies where its target lies, in no block}}
%y = regst.register "y" in %b alias %x : !regst.data<tensor<4xf32>> at 0 slots 1 on <0, host> : !regst.data<tensor<4xf32>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: 2 slots in one of 16 bytes have all of them, or 8 each, got 4}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> slots 2 on <0, host> : !regst.data<tensor<1xf32>>

// -----

%x = regst.register "x" slots 2 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: an alias has as many slots as its target, or n for each of them, got 3 and 2}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> slots 3 on <0, host> : !regst.data<tensor<4xf32>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: an alias with more slots than its target lies on all of one that is no alias}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> at 8 slots 2 on <0, host> : !regst.data<tensor<2xf32>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> slots 2 on <0, host> : !regst.data<tensor<2xf32>>
// expected-error@+1 {{regst.register: an alias with more slots than its target is no target itself}}
%z = regst.register "z" alias %y : !regst.data<tensor<2xf32>> slots 2 on <0, host> : !regst.data<tensor<2xf32>>

// -----

%x = regst.register "x" slots 1 on <0, device cuda:0> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: slots of an alias start at multiples of 16 bytes, got one every 8}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> slots 2 on <0, device cuda:0> : !regst.data<tensor<2xf32>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: an alias is in its target's memory, got #regst.memory_case<1, host> and #regst.memory_case<0, host>}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> slots 1 on <1, host> : !regst.data<tensor<4xf32>>

// -----

%x = regst.register "x" slots 2 on <0, host> : !regst.data<tensor<17xf32>>
// expected-error@+1 {{regst.register: the slots of an alias start where those of its target do, got one every 64 and every 128 bytes}}
%y = regst.register "y" alias %x : !regst.data<tensor<17xf32>> slots 2 on <0, host> : !regst.data<tensor<16xf32>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: an alias of 20 bytes is larger than its target of 16}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> slots 1 on <0, host> : !regst.data<tensor<5xf32>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: the alias ends at byte 20, past its target's 16}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> at 12 slots 1 on <0, host> : !regst.data<tensor<2xf32>>

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: the alias starts at byte 2, not at a multiple of 4}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> at 2 slots 1 on <0, host> : !regst.data<tensor<2xf32>>

// -----

%x = regst.register "x" slots 1 on <0, device cuda:0> : !regst.data<tensor<8xf32>>
// expected-error@+1 {{regst.register: the alias starts at byte 8, not at a multiple of 16}}
%y = regst.register "y" alias %x : !regst.data<tensor<8xf32>> at 8 slots 1 on <0, device cuda:0> : !regst.data<tensor<2xf32>>

// -----

// expected-error@+1 {{regst.register: a register needs both a block and an offset in it}}
%y = regst.register "y" at 8 slots 1 on <0, host> : !regst.data<tensor<2xf32>>

// -----

// Of two slots of 16 bytes the second starts at byte 64.

%c = regst.chunk on <0, host> size 79
%b = regst.block in %c at 0 size 79
// expected-error@+1 {{regst.register: the register ends at byte 80, past the block's 79}}
%x = regst.register "x" in %b at 0 slots 2 on <0, host> : !regst.data<tensor<4xf32>>

// -----

%c = regst.chunk on <0, host> size 64
%b = regst.block in %c at 0 size 64
// expected-error@+1 {{regst.register: the register starts at byte 4, not at a multiple of 64}}
%x = regst.register "x" in %b at 4 slots 1 on <0, host> : !regst.data<tensor<4xf32>>

// -----

%c = regst.chunk on <0, host> size 64
%b = regst.block in %c at 0 size 64
// expected-error@+1 {{regst.register: a register on #regst.memory_case<0, pinned cuda:0> lies in a chunk on #regst.memory_case<0, host>}}
%x = regst.register "x" in %b at 0 slots 1 on <0, pinned cuda:0> : !regst.data<tensor<4xf32>>

// -----

// expected-error@+1 {{regst.register: a control register is no interface}}
%k = regst.register "k" slots 1 interface "k" on <0, host> : !regst.control

// -----

%x = regst.register "x" slots 1 on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: an interface has bytes of its own, so it is no alias}}
%y = regst.register "y" alias %x : !regst.data<tensor<4xf32>> slots 1 interface "y" on <0, host> : !regst.data<tensor<4xf32>>

// -----

%x = regst.register "x" slots 1 interface "in_1" on <0, host> : !regst.data<tensor<4xf32>>
%y = regst.register "y" slots 1 interface "in_2" on <0, host> : !regst.data<tensor<4xf32>>
// What an iteration yields may lie over the same value before it.
%z = regst.register "z" alias %x : !regst.data<tensor<4xf32>> slots 1 interface "out_0" on <0, host> : !regst.data<tensor<4xf32>>
// expected-error@+1 {{regst.register: an interface has bytes of its own, so it is no alias}}
%o = regst.register "o" alias %y : !regst.data<tensor<4xf32>> slots 1 interface "out_0" on <0, host> : !regst.data<tensor<4xf32>>

// -----

// expected-error@+1 {{regst.register: an interface has one slot, got 2}}
%x = regst.register "x" slots 2 interface "x" on <0, host> : !regst.data<tensor<4xf32>>

// -----

// Each slot is looked at, so there is a limit.
// expected-error@+1 {{expected integer <= 16384, got 1000000000}}
%x = regst.register "x" slots 1000000000 on <0, host> : !regst.data<tensor<1xi64>>
