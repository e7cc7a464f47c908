// RUN: penstock-opt %s --verify-diagnostics --split-input-file

// expected-error@+1 {{rank must not be negative, got -1}}
"test.op"() {at = #job.device<-1, cpu:0>} : () -> ()

// -----

// expected-error@+1 {{device index must not be negative, got -1}}
"test.op"() {at = #job.device<0, cpu:-1>} : () -> ()

// -----

// expected-error@+1 {{a device kind is a lower case word, got 'CUDA'}}
"test.op"() {at = #job.device<0, CUDA:0>} : () -> ()

// -----

// expected-error@+1 {{a device kind is a lower case word, got 'GPU'}}
"test.op"() {at = #job.placement<GPU, [0:0]>} : () -> ()

// -----

// expected-error@+1 {{a placement needs at least one device}}
"test.op"() {at = #job.placement<cpu, []>} : () -> ()

// -----

// expected-error@+1 {{ranks and device indices must not be negative, got -1:2}}
"test.op"() {at = #job.placement<cpu, [0:1, -1:2]>} : () -> ()

// -----

// expected-error@+1 {{the device range 0:3-2 is empty}}
"test.op"() {at = #job.placement<cpu, [0:3-2]>} : () -> ()

// -----

// A range is not written out before it is known to be small enough.
// expected-error@+1 {{a placement has at most 65536 devices, got 100000000000}}
"test.op"() {at = #job.placement<cpu, [0:0-99999999999]>} : () -> ()

// -----

// expected-error@+1 {{a placement has at most 65536 devices, got 65537}}
"test.op"() {at = #job.placement<cpu, [0:0-65535, 1:0]>} : () -> ()

// -----

// expected-error@+1 {{the hierarchy [2, 3] does not hold 4 devices}}
"test.op"() {at = #job.placement<cpu, [0:0-3], hierarchy = [2, 3]>} : () -> ()

// -----

// Each extent is positive, not only their product.
// expected-error@+1 {{the hierarchy [-2, -2] does not hold 4 devices}}
"test.op"() {at = #job.placement<cpu, [0:0-3], hierarchy = [-2, -2]>} : () -> ()

// -----

// expected-error@+1 {{a split axis must not be negative, got -1}}
"test.op"() {sbp = #job.sbp<S(-1)>} : () -> ()

// -----

// expected-error@+1 {{an SBP needs at least one entry}}
"test.op"() {sbp = #job.sbp<>} : () -> ()

// -----

// expected-error@+1 {{expected one of S(axis), B and P}}
"test.op"() {sbp = #job.sbp<B, X>} : () -> ()

// -----

// expected-error@+1 {{no initialiser 'glorot' (penstock-opt --list initialiser names them)}}
"test.op"() {init = #job.init<glorot, seed = 1>} : () -> ()

// -----

// expected-error@+1 {{initialiser 'normal' needs seed}}
"test.op"() {init = #job.init<normal, mean = 0.0>} : () -> ()

// -----

// expected-error@+1 {{initialiser 'zeros' does not take file, seed}}
"test.op"() {init = #job.init<zeros, seed = 1, file = "w.npz">} : () -> ()

// -----

// expected-error@+1 {{'file' must be a string, got 1 : i64}}
"test.op"() {init = #job.init<npz, file = 1>} : () -> ()

// -----

// expected-error@+1 {{'seed' must be an integer from 0 on, got -1 : i64}}
"test.op"() {init = #job.init<he_normal, seed = -1>} : () -> ()

// -----

// expected-error@+1 {{'seed' must be an integer from 0 on, got 1.500000e+00 : f64}}
"test.op"() {init = #job.init<he_normal, seed = 1.5>} : () -> ()

// -----

// expected-error@+1 {{'low' must be a number, got "a"}}
"test.op"() {init = #job.init<uniform, seed = 1, low = "a">} : () -> ()

// -----

// expected-error@+1 {{'high' must be finite, got inf}}
"test.op"() {init = #job.init<uniform, seed = 1, high = 1.0e999>} : () -> ()

// -----

// expected-error@+1 {{'std' must not be negative, got -0.5}}
"test.op"() {init = #job.init<normal, seed = 1, std = -0.5>} : () -> ()

// -----

// expected-error@+1 {{'low' must not be above 'high', got 3 > 2}}
"test.op"() {init = #job.init<uniform, seed = 1, low = 3, high = 2>} : () -> ()

// -----

// What is left out counts with its default.
// expected-error@+1 {{'low' must not be above 'high', got 1.5 > 1.0}}
"test.op"() {init = #job.init<uniform, seed = 1, low = 1.5>} : () -> ()

// -----

// Inputs and variables share their names.
job.job @inputs placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{two inputs or variables are named 'x'}}
  %w = job.variable "x" init <zeros> : tensor<4xf32>
}

// -----

job.job @outputs placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  job.output "y", %x : tensor<4xf32>
  // expected-error@+1 {{two outputs are named 'y'}}
  job.output "y", %x : tensor<4xf32>
}

// -----

// expected-error@+1 {{the block of a job takes no arguments}}
job.job @arguments placement <cpu, [0:0]> {
^bb0(%x: tensor<4xf32>):
  job.output "y", %x : tensor<4xf32>
}

// -----

job.job @placement placement <cpu, [0:0]> {
  // expected-error@+1 {{job.input: the placement should be a #job.placement, got #job.device<0, cpu:0>}}
  %x = job.input "x" {placement = #job.device<0, cpu:0>} : tensor<4xf32>
}

// -----

job.job @half_a_part placement <cpu, [0:0]> {
  // expected-error@+1 {{a part needs both where it starts and the whole's shape}}
  %w = "job.variable"() <{port = "w", init = #job.init<zeros>, offsets = array<i64: 0>}> : () -> tensor<4xf32>
}

// -----

job.job @part_that_ends_outside placement <cpu, [0:0]> {
  // expected-error@+1 {{a part of shape [4] from [3] on is not inside [6]}}
  %w = job.variable "w" init <zeros> part [3] of [6] : tensor<4xf32>
}

// -----

job.job @part_that_starts_outside placement <cpu, [0:0]> {
  // expected-error@+1 {{a part of shape [4] from [-1] on is not inside [6]}}
  %w = job.variable "w" init <zeros> part [-1] of [6] : tensor<4xf32>
}

// -----

job.job @part_of_another_rank placement <cpu, [0:0]> {
  // expected-error@+1 {{a part of shape [4] from [0] on is not inside [6, 6]}}
  %w = job.variable "w" init <zeros> part [0] of [6, 6] : tensor<4xf32>
}

// -----

job.job @boxing_keeps_the_type placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{attribute tensor<4xf32> expected from variable 'T', but got tensor<4xf64>}}
  %y = "job.boxing"(%x) <{source_sbp = #job.sbp<B>, source_placement = #job.placement<cpu, [0:0]>, target_sbp = #job.sbp<B>, target_placement = #job.placement<cpu, [0:0]>}> : (tensor<4xf32>) -> tensor<4xf64>
}

// -----

job.job @entries placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{#job.sbp<B> should have one entry for each of the 2 dimensions of #job.placement<cpu, [0:0-3], hierarchy = [2, 2]>}}
  %y = job.boxing %x from <B> on <cpu, [0:0]> to <B> on <cpu, [0:0-3], hierarchy = [2, 2]> : tensor<4xf32>
}

// -----

job.job @axis_that_is_not_there placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{tensor<4xf32> cannot be #job.sbp<S(1)> on #job.placement<cpu, [0:0-1]>: it has no axis 1}}
  %y = job.boxing %x from <B> on <cpu, [0:0]> to <S(1)> on <cpu, [0:0-1]> : tensor<4xf32>
}

// -----

job.job @unknown_extent placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<?xf32>
  // expected-error@+1 {{tensor<?xf32> cannot be #job.sbp<S(0)> on #job.placement<cpu, [0:0-1]>: the extent of its axis 0 is not known}}
  %y = job.boxing %x from <S(0)> on <cpu, [0:0-1]> to <B> on <cpu, [0:0]> : tensor<?xf32>
}

// -----

// 7 elements in 2 parts leave 3 to be cut again.
job.job @too_few_elements placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<7xf32>
  // expected-error@+1 {{tensor<7xf32> cannot be #job.sbp<S(0), S(0)> on #job.placement<cpu, [0:0-7], hierarchy = [2, 4]>: its axis 0 of 3 has no 4 parts}}
  %y = job.boxing %x from <B> on <cpu, [0:0]> to <S(0), S(0)> on <cpu, [0:0-7], hierarchy = [2, 4]> : tensor<7xf32>
}

// -----

job.job @sum_of_booleans placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xi1>
  // expected-error@+1 {{tensor<4xi1> cannot be #job.sbp<P> on #job.placement<cpu, [0:0-1]>: booleans have no sums}}
  %y = job.boxing %x from <B> on <cpu, [0:0]> to <P> on <cpu, [0:0-1]> : tensor<4xi1>
}

// -----

// A copy keeps the type.
job.job @copy placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{attribute tensor<4xf32> expected from variable 'T', but got tensor<4xf64>}}
  %y = "job.copy"(%x) <{device = #job.device<0, cuda:0>}> : (tensor<4xf32>) -> tensor<4xf64>
}

// -----

// What is known by a name has one.

job.job @nameless placement <cpu, [0:0]> {
  // expected-error@+1 {{a port needs a name, got an empty one}}
  %x = job.input "" : tensor<4xf32>
  // expected-error@+1 {{a port needs a name, got an empty one}}
  job.output "", %x : tensor<4xf32>
}

// -----

job.job @nameless_variable placement <cpu, [0:0]> {
  // expected-error@+1 {{a variable needs a name, got an empty one}}
  %w = job.variable "" init <zeros> : tensor<4xf32>
}

// -----

job.job @variable_of_no_further_name placement <cpu, [0:0]> {
  // expected-error@+1 {{a list of further names should not be empty}}
  %w = job.variable "w" also [] init <zeros> : tensor<4xf32>
}

// -----

job.job @variable_of_an_empty_further_name placement <cpu, [0:0]> {
  // expected-error@+1 {{a variable needs a name, got an empty one}}
  %w = job.variable "w" also [""] init <zeros> : tensor<4xf32>
}

// -----

job.job @variable_of_one_name_twice placement <cpu, [0:0]> {
  // expected-error@+1 {{the variable has the name 'w' twice}}
  %w = job.variable "w" also ["v", "w"] init <zeros> : tensor<4xf32>
}

// -----

job.job @parts_that_overlap placement <cpu, [0:0]> {
  %v = job.variable "v" init <zeros> part [0] of [8] : tensor<4xf32>
  %w = job.variable "v" init <zeros> part [4] of [8] : tensor<4xf32>
  // expected-error@+1 {{two inputs or variables are named 'v'}}
  %x = job.variable "v" init <zeros> part [2] of [8] : tensor<2xf32>
}

// -----

job.job @parts_of_others placement <cpu, [0:0]> {
  %v = job.variable "v" init <zeros> part [0] of [8] : tensor<4xf32>
  // expected-error@+1 {{two inputs or variables are named 'v'}}
  %w = job.variable "v" init <ones> part [4] of [8] : tensor<4xf32>
  // expected-error@+1 {{two inputs or variables are named 'v'}}
  %x = job.variable "v" init <zeros> part [4] of [9] : tensor<4xf32>
  // expected-error@+1 {{two inputs or variables are named 'v'}}
  %y = job.variable "v" init <zeros> : tensor<8xf32>
}

// -----

job.job @further_name_of_another placement <cpu, [0:0]> {
  %w = job.variable "w" also ["v"] init <zeros> : tensor<4xf32>
  // expected-error@+1 {{two inputs or variables are named 'v'}}
  %v = job.variable "v" init <zeros> : tensor<4xf32>
}

// -----

job.job @nameless_buffers placement <cpu, [0:0]> {
  // expected-error@+1 {{a buffer needs a name, got an empty one}}
  %x = job.foreign_input "" : tensor<4xf32>
  // expected-error@+1 {{a buffer needs a name, got an empty one}}
  job.foreign_output "", %x : tensor<4xf32>
}

// -----

// Outputs do not lie on the devices of their job.

job.job @layouts_of_outputs placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{an output is whole on the host, and takes no sbp}}
  job.output "y", %x {sbp = #job.sbp<S(0)>} : tensor<4xf32>
  // expected-error@+1 {{an output is whole on the host, and takes no operand_sbp}}
  job.foreign_output "y", %x {operand_sbp = [#job.sbp<B>]} : tensor<4xf32>
}

// -----

job.job @after_of_another_type placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{attribute tensor<4xf32> expected from variable 'T', but got tensor<4xf64>}}
  %y = "job.after"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf64>
}

// -----

job.job @after_placed placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{job.after lies as its first operand does, and takes no placement}}
  %y = job.after %x, %x {placement = #job.placement<cpu, [0:1]>} : tensor<4xf32>, tensor<4xf32>
}

// -----

job.job @buffers placement <cpu, [0:0]> {
  %x = job.foreign_input "b" : tensor<4xf32>
  // expected-error@+1 {{two buffers are named 'b'}}
  %y = job.foreign_input "b" : tensor<4xf32>
}

// -----

job.job @winograd placement <cpu, [0:0]> {
  // expected-error@+1 {{job.variable: weights of shape [8, 4, 3, 2] do not become [36, 8, 4] for Winograd}}
  %u = job.variable "u" init <ones> winograd [8, 4, 3, 2] : tensor<36x8x4xf32>
}

// -----

job.job @winograd_part placement <cpu, [0:0]> {
  // expected-error@+1 {{job.variable: what is made of weights for Winograd is no part}}
  %u = job.variable "u" init <ones> part [0, 0, 0] of [36, 8, 8] winograd [8, 4, 3, 3] : tensor<36x8x4xf32>
}
