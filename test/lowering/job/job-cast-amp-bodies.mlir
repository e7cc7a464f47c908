// RUN: penstock-opt %s -p 'job-cast-amp{type=bf16}' | filecheck %s

// Products of a body are of 16 bits, what it carries is not; weights and slices are cast before the loop, once for all their readers.
// CHECK-LABEL: job.job @layer
job.job @layer placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<5x2x3xf32>
  %h = job.input "h" : tensor<2x3xf32>
  %w = job.variable "w" init <ones> : tensor<3x3xf32>
  // CHECK: [[W:%w_bf16]] = op.cast %w to bf16
  // CHECK: [[X:%x_bf16]] = op.cast %x to bf16
  // CHECK: op.loop 5 carries(%h : tensor<2x3xf32>) slices(%x, [[X]] : {{.*}}) reads(%w, [[W]] : {{.*}}) -> tensor<2x3xf32>
  %y = op.loop 5 carries(%h : tensor<2x3xf32>) slices(%x : tensor<5x2x3xf32>)
      reads(%w : tensor<3x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: ^bb0({{.*}}, %s: tensor<2x3xf32>, %a: tensor<2x3xf32>, %a_bf16: tensor<2x3xbf16>, %b: tensor<3x3xf32>, [[B:%.*]]: tensor<3x3xbf16>)
  ^bb0(%i: tensor<i64>, %s: tensor<2x3xf32>, %a: tensor<2x3xf32>, %b: tensor<3x3xf32>):
    // CHECK-NEXT: op.matmul %a_bf16, [[B]]
    %p = op.matmul %a, %b : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
    // CHECK: %s_bf16 = op.cast %s to bf16
    // CHECK-NEXT: op.matmul %s_bf16, [[B]]
    %q = op.matmul %s, %b : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
    // CHECK: %r = op.add %p, %q : tensor<2x3xf32>
    %r = op.add %p, %q : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
    // CHECK-NEXT: op.yield %r : tensor<2x3xf32>
    op.yield %r : tensor<2x3xf32>
  }
  // CHECK: op.matmul {{%.*}}, [[W]]
  %z = op.matmul %y, %w : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x3xf32>
  job.output "z", %z : tensor<2x3xf32>
}

// What is of 16 bits already is read as it is, through conditions and loops in each other.
// CHECK-LABEL: job.job @nested
job.job @nested placement <cpu, [0:0]> {
  %c = job.input "c" : tensor<i1>
  %x = job.input "x" : tensor<3x3xf32>
  // CHECK: %p_bf16 = op.matmul
  %p = op.matmul %x, %x : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  // CHECK: op.if %c reads(%p, %p_bf16 : {{.*}}) -> tensor<3x3xf32>
  %y = op.if %c reads(%p : tensor<3x3xf32>) -> tensor<3x3xf32> {
  // CHECK-NEXT: ^bb0(%a: {{.*}}, [[A:%.*]]: tensor<3x3xbf16>)
  ^bb0(%a: tensor<3x3xf32>):
    // CHECK-NEXT: op.loop 4 carries(%a : tensor<3x3xf32>) reads(%a, [[A]] : {{.*}})
    %l = op.loop 4 carries(%a : tensor<3x3xf32>) reads(%a : tensor<3x3xf32>) -> tensor<3x3xf32> {
    // CHECK-NEXT: ^bb0(%i: {{.*}}, %s: {{.*}}, %b: {{.*}}, [[B:%.*]]: tensor<3x3xbf16>)
    ^bb0(%i: tensor<i64>, %s: tensor<3x3xf32>, %b: tensor<3x3xf32>):
      // CHECK-NEXT: %s_bf16 = op.cast %s to bf16
      // CHECK-NEXT: op.matmul %s_bf16, [[B]]
      %m = op.matmul %s, %b : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
      op.yield %m : tensor<3x3xf32>
    }
    op.yield %l : tensor<3x3xf32>
  } else {
  ^bb0(%d: tensor<3x3xf32>):
    // CHECK: ^bb0(%d: {{.*}})
    // CHECK-NEXT: op.exp %d : tensor<3x3xf32>
    %e = op.exp %d : tensor<3x3xf32> -> tensor<3x3xf32>
    op.yield %e : tensor<3x3xf32>
  }
  job.output "y", %y : tensor<3x3xf32>
}

// A body where nothing gains stays as it is.
// CHECK-LABEL: job.job @plain
job.job @plain placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<3xf32>
  // CHECK: op.loop 4 carries(%x : tensor<3xf32>) -> tensor<3xf32>
  %l = op.loop 4 carries(%x : tensor<3xf32>) -> tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %s: tensor<3xf32>):
    // CHECK: op.exp %s : tensor<3xf32>
    %e = op.exp %s : tensor<3xf32> -> tensor<3xf32>
    op.yield %e : tensor<3xf32>
  }
  job.output "y", %l : tensor<3xf32>
}
