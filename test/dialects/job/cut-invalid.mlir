// RUN: penstock-opt %s --verify-diagnostics --split-input-file

job.job @nothing placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{there is no output 'n' to cut it by}}
  job.output "y", %x cut by "n" axis 0 : tensor<4xf32>
}

// -----

job.job @no_number placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{the output 'n' should be a tensor<i64> that is not cut}}
  job.output "y", %x cut by "n" axis 0 : tensor<4xf32>
  job.output "n", %x : tensor<4xf32>
}

// -----

job.job @axis placement <cpu, [0:0]> {
  %x, %n = "test.op"() : () -> (tensor<4xf32>, tensor<i64>)
  // expected-error@+1 {{axis 1 is out of range for 1 dimensions}}
  job.output "y", %x cut by "n" axis 1 : tensor<4xf32>
  job.output "n", %n : tensor<i64>
}

// -----

job.job @twice placement <cpu, [0:0]> {
  %x, %n = "test.op"() : () -> (tensor<4xf32>, tensor<i64>)
  // expected-error@+1 {{each axis is cut once, got the axes [0, 0]}}
  job.output "y", %x cut by "n" axis 0, "n" axis 0 : tensor<4xf32>
  job.output "n", %n : tensor<i64>
}

// -----

job.job @before placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  // expected-error@+1 {{a cut is by an output, along an axis from 0 on, got #job.cut<"n" axis -1>}}
  job.output "y", %x cut by "n" axis -1 : tensor<4xf32>
}

// -----

launch.program @twice rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@x] writes [] {
    // expected-error@+1 {{each axis is cut once, got the axes [0, 0]}}
    launch.fetch "y" from @x cut by "n" axis 0, "m" axis 0
  }
}

// -----

launch.program @p rank 0 {
  launch.chunk @c on <0, host> size 64
  launch.register @x in @c at 0 slots 1 : memref<4xf32>
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@x] writes [] {
    // expected-error@+1 {{launch.fetch: there is no output 'n' to cut it by}}
    launch.fetch "y" from @x cut by "n" axis 0
  }
}

// -----

job.job @no_variable placement <cpu, [0:0]> {
  // expected-error@+1 {{there is no variable 'n' to cut it by}}
  %w = job.variable "w" cut by "n" axis 0 init <zeros> : tensor<4xf32>
}

// -----

job.job @no_number placement <cpu, [0:0]> {
  // expected-error@+1 {{the variable 'n' should be a tensor<i64> that is not cut}}
  %w = job.variable "w" cut by "n" axis 0 init <zeros> : tensor<4xf32>
  %n = job.variable "n" init <zeros> : tensor<i32>
}

// -----

job.job @axis_of_variable placement <cpu, [0:0]> {
  // expected-error@+1 {{axis 1 is out of range for 1 dimensions}}
  %w = job.variable "w" cut by "n" axis 1 init <zeros> : tensor<4xf32>
  %n = job.variable "n" init <zeros> : tensor<i64>
}

// -----

launch.program @variable rank 0 {
  launch.chunk @c on <0, host> size 64
  // expected-error@+1 {{launch.variable: there is no variable 'n' to cut it by}}
  launch.variable @w cut by "n" axis 0 in @c at 0 init <zeros> : memref<4xf32>
}
