// RUN: penstock-opt %s -p job-add-gradients --split-input-file | filecheck %s

// The terms of a value that several ops read are added; `scale` is the gradient of the
// loss; constants and values that stop have none.

job.job @sums placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %scale = job.input "scale" : tensor<f32>
  %s = op.stop_gradient %w : tensor<4xf32> -> tensor<4xf32>
  %y = op.mul %w, %s : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %z = op.add %y, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %z axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w scale %scale : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
// CHECK-LABEL: @sums
// CHECK-NOT:     op.stop_gradient
// CHECK:         %[[z:.*]] = op.expand %{{.*}} to [4] {pass = "backward"}
// CHECK-NEXT:    %[[y:.*]] = op.mul %[[z]], %w {pass = "backward"}
// CHECK-NEXT:    %[[g:.*]] = op.add %[[z]], %[[y]] {pass = "backward"}
// CHECK-NEXT:    job.output "g", %[[g]]

// -----

// What is zero everywhere is not computed; it is a constant where it is asked for.

job.job @zeros placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %y = op.floor %w : tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %y axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
// CHECK-LABEL: @zeros
// CHECK:         %[[g:.*]] = op.constant {pass = "backward"} dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    job.output "g", %[[g]]

// -----

// A clip asks its result where its gradient passes: inside the bounds, not at them.

job.job @clipped placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %y = op.clip %w min -2.0 max 6.0 : tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %y axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
// CHECK-LABEL: @clipped
// CHECK:         %[[y:.*]] = op.clip %w
// CHECK:         %[[low:.*]] = op.constant {pass = "backward"} dense<-2.000000e+00> : tensor<f32>
// CHECK-NEXT:    op.greater %[[y]], %[[low]] {pass = "backward"}
// CHECK:         %[[high:.*]] = op.constant {pass = "backward"} dense<6.000000e+00> : tensor<f32>
// CHECK-NEXT:    op.greater %[[high]], %[[y]] {pass = "backward"}

// -----

// The gradient by a variable lies as the variable does.

job.job @parts placement <cpu, [0:0-1]> {
  %w = job.variable "w" init <ones> {sbp = #job.sbp<S(0)>} : tensor<4xf32>
  %loss = op.reduce_sum %w axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
// CHECK-LABEL: @parts
// CHECK:         %[[g:.*]] = op.reshape %{{.*}} to [4] {pass = "backward", sbp = #job.sbp<S(0)>}
// CHECK-NEXT:    job.output "g", %[[g]]

// -----

// One that says nothing lies whole on several devices, and so does its gradient.

job.job @whole placement <cpu, [0:0-3], hierarchy = [2, 2]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %loss = op.reduce_sum %w axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
// CHECK-LABEL: @whole
// CHECK:         %[[g:.*]] = op.reshape %{{.*}} to [4] {pass = "backward", sbp = #job.sbp<B, B>}
// CHECK-NEXT:    job.output "g", %[[g]]

// -----

// Ops of the backward pass are placed as those that they belong to; sums and gradients of variables as values are.

job.job @stages placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> {placement = #job.placement<cpu, [0:1]>} : tensor<4xf32>
  %a = op.exp %w {placement = #job.placement<cpu, [0:2]>} : tensor<4xf32> -> tensor<4xf32>
  %b = op.neg %w {placement = #job.placement<cpu, [0:1]>} : tensor<4xf32> -> tensor<4xf32>
  %s = op.mul %a, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %s axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
// CHECK-LABEL: @stages
// CHECK:         op.mul %{{.*}}, %b {pass = "backward"}
// CHECK:         op.neg %{{.*}} {pass = "backward", placement = #job.placement<cpu, [0:1]>}
// CHECK:         op.mul %{{.*}}, %a {pass = "backward", placement = #job.placement<cpu, [0:2]>}
// CHECK:         %[[g:.*]] = op.add %{{.*}} {pass = "backward", placement = #job.placement<cpu, [0:1]>}
// CHECK-NEXT:    job.output "g", %[[g]]

// -----

// A gradient of a gradient; a job without any is left alone.

job.job @second placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<f32>
  %y = op.exp %x : tensor<f32> -> tensor<f32>
  %g = job.gradients of %y by %x : tensor<f32>, tensor<f32>
  %h = job.gradients of %g by %x : tensor<f32>, tensor<f32>
  job.output "h", %h : tensor<f32>
}
job.job @none placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<f32>
  job.output "y", %x : tensor<f32>
}
// CHECK-LABEL: @second
// CHECK-NOT:     job.gradients
// CHECK:         job.output "h"
// CHECK-LABEL: @none
// CHECK-NEXT:    %x = job.input
// CHECK-NEXT:    job.output

// -----

// Gradients are computed where their ops are placed, and a sum of gradients where its
// value is made.

job.job @stages placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %a = op.exp %w : tensor<4xf32> -> tensor<4xf32>
  %b = op.tanh %a {placement = #job.placement<cpu, [1:0]>} : tensor<4xf32> -> tensor<4xf32>
  %c = op.mul %a, %b {placement = #job.placement<cpu, [1:0]>} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %c axes [0] {placement = #job.placement<cpu, [1:0]>} : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  job.output "g", %g : tensor<4xf32>
}
// CHECK-LABEL: @stages
// CHECK:         %b_grad = op.mul %{{.*}}, %a {pass = "backward", placement = #job.placement<cpu, [1:0]>}
// CHECK:         %[[OF_B:.+]] = op.mul %b_grad, %{{.*}} {pass = "backward", placement = #job.placement<cpu, [1:0]>}
// CHECK:         %a_grad = op.add %{{.*}}, %[[OF_B]] {pass = "backward"}
// CHECK-NEXT:    %w_grad = op.mul %a_grad, %a {pass = "backward"}

// -----

// The gradient of a loop goes back as many iterations as that one has made, on the values
// that it has carried, as far as they are needed: a sum is not.

job.job @until placement <cpu, [0:0]> {
  %x = job.variable "x" init <ones> : tensor<f32>
  %go = op.constant dense<true> : tensor<i1>
  %end, %y, %s = op.loop up to 20 while(%go) carries(%x, %x : tensor<f32>, tensor<f32>)
      -> tensor<i1>, tensor<f32>, tensor<f32> {
  ^bb0(%i: tensor<i64>, %going: tensor<i1>, %z: tensor<f32>, %t: tensor<f32>):
    %next = op.mul %z, %z : tensor<f32>, tensor<f32> -> tensor<f32>
    %again = op.less %next, %z : tensor<f32>, tensor<f32> -> tensor<i1>
    %sum = op.add %t, %next : tensor<f32>, tensor<f32> -> tensor<f32>
    op.yield %again, %next, %sum : tensor<i1>, tensor<f32>, tensor<f32>
  }
  %g = job.gradients of %s by %x : tensor<f32>, tensor<f32>
  job.output "g", %g : tensor<f32>
}
// CHECK-LABEL: @until
// CHECK:         %{{.*}}, %y, %s, %[[Z:[a-z_0-9]+]], %[[MADE:[a-z_0-9]+]] = op.loop up to 20 {{.*}} made
// CHECK:           op.yield %again, %next, %sum, %z :
// CHECK:         op.loop up to 20 count(%[[MADE]]) backward carries({{.*}}) slices(%[[Z]] : tensor<20xf32>)

// -----

// A count is that of both loops. Rows of inputs beyond it are anything, so those of a
// product after the loop are stacked by it; otherwise they are the tensor that is sliced.

job.job @rows placement <cpu, [0:0]> {
  %w = job.variable "w" init <ones> : tensor<4x4xf32>
  %xs = job.input "xs" : tensor<5x1x4xf32>
  %n = job.input "n" : tensor<i64>
  %h0 = op.constant dense<0.0> : tensor<1x4xf32>
  %h = op.loop up to 5 count(%n) carries(%h0 : tensor<1x4xf32>)
      slices(%xs : tensor<5x1x4xf32>) reads(%w : tensor<4x4xf32>) -> tensor<1x4xf32> {
  ^bb0(%i: tensor<i64>, %z: tensor<1x4xf32>, %x: tensor<1x4xf32>, %v: tensor<4x4xf32>):
    %p = op.matmul %x, %v : tensor<1x4xf32>, tensor<4x4xf32> -> tensor<1x4xf32>
    %s = op.sub %p, %z : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
    op.yield %s : tensor<1x4xf32>
  }
  %loss = op.reduce_sum %h axes [0, 1] : tensor<1x4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4x4xf32>
  job.output "g", %g : tensor<4x4xf32>
}
// CHECK-LABEL: @rows
// CHECK:         op.loop up to 5 count(%n) backward
// CHECK:           ^bb0(%{{.*}}: tensor<i64>, %[[G:.*]]: tensor<1x4xf32>, %[[X:.*]]: tensor<1x4xf32>, %{{.*}}: tensor<4x4xf32>):
// CHECK:           op.yield %{{.*}}, %[[X]], %[[G]] :
// CHECK:         op.matmul %{{.*}}, %{{.*}} transpose_a {{.*}} : tensor<5x4xf32>, tensor<5x4xf32> -> tensor<4x4xf32>

// Sums over iterations that are carried are of f32, also those of halves.
// CHECK-LABEL: job.job @halves
job.job @halves placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xbf16>
  %w = job.variable "w" init <ones> : tensor<4xbf16>
  %y = op.loop 9 carries(%x : tensor<4xbf16>) reads(%w : tensor<4xbf16>) -> tensor<4xbf16> {
  ^bb0(%i: tensor<i64>, %s: tensor<4xbf16>, %v: tensor<4xbf16>):
    %p = op.mul %s, %v : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xbf16>
    op.yield %p : tensor<4xbf16>
  }
  %loss = op.reduce_sum %y axes [0] : tensor<4xbf16> -> tensor<bf16>
  // CHECK: [[ZEROS:%.*]] = op.constant {pass = "backward"} dense<0.000000e+00> : tensor<4xf32>
  // CHECK: [[X:%.*]], [[SUM:%.*]] = op.loop 9 backward carries({{%.*}}, [[ZEROS]] : tensor<4xbf16>, tensor<4xf32>)
  // CHECK: [[TERM:%.*]] = op.cast {{%.*}} to f32
  // CHECK-NEXT: op.add {{%.*}}, [[TERM]] : tensor<4xf32>
  // CHECK: op.cast [[SUM]] to bf16
  %g = job.gradients of %loss by %w : tensor<bf16>, tensor<4xbf16>
  job.output "g", %g : tensor<4xbf16>
}

// -----

// Gradients of wide sums are computed in the type of these, and cast to that of factors.

job.job @wide placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x4xbf16>
  %w = job.variable "w" init <ones> : tensor<4x2xbf16>
  %y = op.matmul %x, %w wide : tensor<8x4xbf16>, tensor<4x2xbf16> -> tensor<8x2xf32>
  %loss = op.reduce_sum %y axes [0, 1] : tensor<8x2xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4x2xbf16>
  job.output "g", %g : tensor<4x2xbf16>
}
// CHECK-LABEL: @wide
// CHECK:         %[[x:.*]] = op.cast %x to f32 {pass = "backward"}
// CHECK:         %[[g:.*]] = op.matmul %[[x]], %{{.*}} transpose_a {pass = "backward"} : tensor<8x4xf32>, tensor<8x2xf32> -> tensor<4x2xf32>
// CHECK-NEXT:    op.cast %[[g]] to bf16 {pass = "backward"}
