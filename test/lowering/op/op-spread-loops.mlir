// RUN: penstock-opt -p op-spread-loops %s --split-input-file | filecheck %s
// RUN: penstock-opt -p op-spread-loops,op-spread-loops %s --split-input-file | filecheck %s

// A loop on one device stays, and so does one in which an op that can fail would be
// computed in vain.

// CHECK-LABEL: job.job @one
// CHECK:       op.loop 3
job.job @one placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<f32>
  %b = op.loop 3 carries(%a : tensor<f32>) -> tensor<f32> {
  ^bb0(%i: tensor<i64>, %c: tensor<f32>):
    %d = op.exp %c : tensor<f32> -> tensor<f32>
    op.yield %d : tensor<f32>
  }
  job.output "b", %b : tensor<f32>
}

// CHECK-LABEL: job.job @vain
// CHECK:       op.loop up to 3
// CHECK-SAME:  attributes {no_unroll = "op.gather can fail"}
job.job @vain placement <cpu, [0:0-1]> {
  %a = job.input "a" : tensor<3xi64>
  %n = job.input "n" : tensor<i64>
  %b = op.loop up to 3 count(%n) carries(%a : tensor<3xi64>) -> tensor<3xi64> {
  ^bb0(%i: tensor<i64>, %c: tensor<3xi64>):
    %d = op.gather %c[%c] axis 0 : tensor<3xi64>, tensor<3xi64> -> tensor<3xi64>
    op.yield %d : tensor<3xi64>
  }
  job.output "b", %b : tensor<3xi64>
}

// -----

// What the loop slices comes last first if it goes backward, and what it stacks is put
// the right way round again. The first iteration is the last one by its number.

// CHECK-LABEL: job.job @backward
// CHECK:       op.constant dense<2> : tensor<i64>
// CHECK:       op.constant dense<[2, 1, 0]> : tensor<3xi64>
// CHECK:       [[I:%.*]] = op.reshape {{.*}} to [] : tensor<1xi64> -> tensor<i64>
// CHECK:       [[FIRST:%.*]] = op.equal [[I]]
// CHECK:       [[X:%.*]] = op.slice %xs from [-1, 0] to [-4, 2] by [-1, 1]
// CHECK:       op.unpack [[X]] by 3 : tensor<3x2xf32> -> tensor<1x2xf32>
// CHECK:       [[Y:%.*]] = op.pack {{.*}} by 3 : tensor<1x2xf32> -> tensor<3x2xf32>
// CHECK:       %ys = op.slice [[Y]] from [-1, 0] to [-4, 2] by [-1, 1]
job.job @backward placement <cpu, [0:0-1]> {
  %a = job.input "a" : tensor<2xf32>
  %xs = job.input "xs" : tensor<3x2xf32>
  %b, %ys = op.loop 3 backward carries(%a : tensor<2xf32>) slices(%xs : tensor<3x2xf32>)
      -> tensor<2xf32>, tensor<3x2xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<2xf32>, %x: tensor<2xf32>):
    %d = op.add %c, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    op.yield %d, %x : tensor<2xf32>, tensor<2xf32>
  }
  job.output "b", %b : tensor<2xf32>
  job.output "ys", %ys : tensor<3x2xf32>
}

// -----

// A variable is there in each iteration; a value that is made where an op of the body
// says has its state there, and what that op reads is repeated there.

// CHECK-LABEL: job.job @elsewhere
// CHECK:       [[S:%.*]] = job.state {placement = #job.placement<cpu, [0:1]>}
// CHECK:       op.repeat %a times 3 {placement = #job.placement<cpu, [0:1]>}
// CHECK:       op.where {{.*}} {placement = #job.placement<cpu, [0:1]>}
// CHECK:       op.mul {{.*}}, %w : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
// CHECK:       [[G:%.*]] = op.repeat %g times 3 {placement = #job.placement<cpu, [0:1]>}
// CHECK:       %d = op.add {{.*}}, [[G]] {placement = #job.placement<cpu, [0:1]>}
// CHECK:       job.assign %d to [[S]] {placement = #job.placement<cpu, [0:1]>}
// CHECK:       %b = op.last %d of 3 {placement = #job.placement<cpu, [0:1]>}
job.job @elsewhere placement <cpu, [0:0]> {
  %a = job.input "a" : tensor<2xf32>
  %g = job.input "g" : tensor<2xf32>
  %w = job.variable "w" init <ones> : tensor<2xf32>
  %b = op.loop 3 carries(%a : tensor<2xf32>) reads(%w, %g : tensor<2xf32>, tensor<2xf32>)
      -> tensor<2xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<2xf32>, %v: tensor<2xf32>, %h: tensor<2xf32>):
    %m = op.mul %c, %v : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    %d = op.add %m, %h {placement = #job.placement<cpu, [0:1]>} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
    op.yield %d : tensor<2xf32>
  }
  job.output "b", %b : tensor<2xf32>
}

// -----

// All iterations of the maximum are made. The count is looked at once, the condition in
// each iteration; those that were made are counted by a state.

// CHECK-LABEL: job.job @most
// CHECK:       [[N:%.*]] = op.require {{.*}}, %n "loop 'go' is to make other than 0 to 3 iterations"
// CHECK:       [[R:%.*]] = op.repeat [[N]] times 3
// CHECK:       [[C:%.*]] = op.less {{.*}}, [[R]]
// CHECK:       [[ON:%.*]] = op.logical_and [[C]]
// CHECK:       %d = op.exp
// CHECK:       op.where [[ON]], %d
// CHECK:       %made = op.last {{.*}} of 3 : tensor<i64> -> tensor<i64>
job.job @most placement <cpu, [0:0-1]> {
  %a = job.input "a" : tensor<f32>
  %n = job.input "n" : tensor<i64>
  %go = job.input "go" : tensor<i1>
  %go_1, %b, %made = op.loop up to 3 count(%n) while(%go) carries(%a : tensor<f32>) made
      -> tensor<i1>, tensor<f32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %again: tensor<i1>, %c: tensor<f32>):
    %d = op.exp %c : tensor<f32> -> tensor<f32>
    %e = op.less %d, %c : tensor<f32>, tensor<f32> -> tensor<i1>
    op.yield %e, %d : tensor<i1>, tensor<f32>
  }
  job.output "b", %b : tensor<f32>
  job.output "made", %made : tensor<i64>
}

// -----

// Without a count the condition may hold for too long, which is known in the last
// iteration. A loop in the body makes no iterations where that one is none.

// CHECK-LABEL: job.job @inner
// CHECK:       [[BEGINS:%.*]] = op.logical_and
// CHECK:       op.repeat [[BEGINS]] times 4 : tensor<i1> -> tensor<i1>
// CHECK:       "the condition of loop 'p' still holds after iteration 3, the last of its maximum of 4"
// CHECK:       "the condition of loop 'o' still holds after iteration 2, the last of its maximum of 3"
job.job @inner placement <cpu, [0:0-1]> {
  %a = job.input "a" : tensor<f32>
  %go = job.input "go" : tensor<i1>
  %o, %b = op.loop up to 3 while(%go) carries(%a : tensor<f32>)
      -> tensor<i1>, tensor<f32> {
  ^bb0(%i: tensor<i64>, %again: tensor<i1>, %c: tensor<f32>):
    %p, %d = op.loop up to 4 while(%again) carries(%c : tensor<f32>)
        -> tensor<i1>, tensor<f32> {
    ^bb0(%j: tensor<i64>, %on: tensor<i1>, %e: tensor<f32>):
      %f = op.exp %e : tensor<f32> -> tensor<f32>
      %g = op.less %f, %e : tensor<f32>, tensor<f32> -> tensor<i1>
      op.yield %g, %f : tensor<i1>, tensor<f32>
    }
    op.yield %p, %d : tensor<i1>, tensor<f32>
  }
  job.output "b", %b : tensor<f32>
}

// -----

// The slots that a loop asks for are those of its results, not of an iteration's values.

// CHECK-LABEL: job.job @slots
// CHECK:       op.exp %{{[a-z_0-9]*}} : tensor<4xf32>
// CHECK:       %b = op.last {{.*}} {slots = 3 : i64}
// CHECK:       %ys = op.pack {{.*}} {slots = 3 : i64}
job.job @slots placement <cpu, [0:0-1]> {
  %a = job.input "a" : tensor<4xf32>
  %b, %ys = op.loop 3 carries(%a : tensor<4xf32>) -> tensor<4xf32>, tensor<3x4xf32>
      attributes {slots = 3 : i64} {
  ^bb0(%i: tensor<i64>, %c: tensor<4xf32>):
    %d = op.exp %c : tensor<4xf32> -> tensor<4xf32>
    op.yield %d, %d : tensor<4xf32>, tensor<4xf32>
  }
  job.output "b", %b : tensor<4xf32>
  job.output "ys", %ys : tensor<3x4xf32>
}
