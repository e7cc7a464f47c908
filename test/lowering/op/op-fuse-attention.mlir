// RUN: penstock-opt %s -p op-fuse-attention | filecheck %s

!q = tensor<2x24x8xf32>
!k = tensor<2x32x8xf32>
!t = tensor<2x8x32xf32>
!v = tensor<2x32x16xf32>
!s = tensor<2x24x32xf32>
!m = tensor<24x32xf32>
!y = tensor<2x24x16xf32>

// Products, a softmax, and products are one op, without the matrix of scores.
// CHECK-LABEL: job.job @plain
job.job @plain placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK-NOT:  op.matmul
  // CHECK-NOT:  op.softmax
  // CHECK:      %y = op.attention %q, %k, %v : tensor<2x24x8xf32>, tensor<2x32x8xf32>, tensor<2x32x16xf32> -> tensor<2x24x16xf32>
  // CHECK-NEXT: job.output
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// A constant that scores are multiplied with is the scale: 2 / 4; what is added then is
// the mask.
// CHECK-LABEL: job.job @scaled_and_masked
job.job @scaled_and_masked placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  %m = job.input "m" : !m
  // CHECK: %y = op.attention %q, %k, %v mask %m scale 5.000000e-01 :
  %two = op.constant dense<2.0> : tensor<f32>
  %four = op.constant dense<4.0> : tensor<f32>
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a = op.mul %two, %p : tensor<f32>, !s -> !s
  %b = op.div %a, %four : !s, tensor<f32> -> !s
  %c = op.add %m, %b : !m, !s -> !s
  %s = op.softmax %c axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// What hides all keys after a diagonal is no mask that is read: a sum with a triangle of 0
// and -inf, before a mask or after it,
// CHECK-LABEL: job.job @causal
job.job @causal placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  %m = job.input "m" : !m
  %zero = op.constant dense<0.0> : tensor<f32>
  %none = op.constant dense<"0x000080FF"> : tensor<f32>
  // CHECK-NOT: op.softmax
  // CHECK:     %y = op.attention %q, %k, %v causal 8 scale 5.000000e-01 :
  // CHECK:     %z = op.attention %q, %k, %v mask %m causal 8 scale 5.000000e-01 :
  %half = op.constant dense<0.5> : tensor<f32>
  %t = op.triangle %zero, %none to [24, 32] offset 8 : tensor<f32>, tensor<f32> -> !m
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %h = op.mul %p, %half : !s, tensor<f32> -> !s
  %a = op.add %h, %t : !s, !m -> !s
  %s = op.softmax %a axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  %p2 = op.matmul %q, %k transpose_b : !q, !k -> !s
  %h2 = op.mul %p2, %half : !s, tensor<f32> -> !s
  %b2 = op.add %t, %h2 : !m, !s -> !s
  %a2 = op.add %b2, %m : !s, !m -> !s
  %s2 = op.softmax %a2 axis 2 : !s -> !s
  %z = op.matmul %s2, %v : !s, !v -> !y
  job.output "y", %y : !y
  job.output "z", %z : !y
}

// or a choice of the least finite number, or of less, there.
// CHECK-LABEL: job.job @chosen
job.job @chosen placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  %yes = op.constant dense<true> : tensor<i1>
  %no = op.constant dense<false> : tensor<i1>
  %least = op.constant dense<-3.40282347E+38> : tensor<f32>
  %none = op.constant dense<"0x000080FF"> : tensor<f32>
  // CHECK-NOT: op.softmax
  // CHECK:     %y = op.attention %q, %k, %v causal 0 :
  // CHECK:     %z = op.attention %q, %k, %v causal 2 :
  %seen = op.triangle %yes, %no to [24, 32] offset 0 : tensor<i1>, tensor<i1> -> tensor<24x32xi1>
  %all = op.reshape %seen to [1, 24, 32] : tensor<24x32xi1> -> tensor<1x24x32xi1>
  %after = op.triangle %no, %yes to [24, 32] offset 2 : tensor<i1>, tensor<i1> -> tensor<24x32xi1>
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a = op.where %all, %p, %least : tensor<1x24x32xi1>, !s, tensor<f32> -> !s
  %s = op.softmax %a axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  %p2 = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a2 = op.where %after, %none, %p2 : tensor<24x32xi1>, tensor<f32>, !s -> !s
  %s2 = op.softmax %a2 axis 2 : !s -> !s
  %z = op.matmul %s2, %v : !s, !v -> !y
  job.output "y", %y : !y
  job.output "z", %z : !y
}

// Constants tell it by their elements, as do choices of numbers.
// CHECK-LABEL: job.job @constants
job.job @constants placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<3x8xf32>
  %k = job.input "k" : tensor<16x8xf32>
  %v = job.input "v" : tensor<16x8xf32>
  // CHECK-NOT: op.softmax
  // CHECK:     op.attention %q, %k, %v causal 13 :
  %zero = op.constant dense<0.0> : tensor<f32>
  %least = op.constant dense<-3.40282347E+38> : tensor<f32>
  %seen = op.constant dense<[[true, true, true, true, true, true, true, true, true, true, true, true, true, true, false, false], [true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, false], [true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true]]> : tensor<3x16xi1>
  %m = op.where %seen, %zero, %least : tensor<3x16xi1>, tensor<f32>, tensor<f32> -> tensor<3x16xf32>
  %p = op.matmul %q, %k transpose_b : tensor<3x8xf32>, tensor<16x8xf32> -> tensor<3x16xf32>
  %a = op.add %p, %m : tensor<3x16xf32>, tensor<3x16xf32> -> tensor<3x16xf32>
  %s = op.softmax %a axis 1 : tensor<3x16xf32> -> tensor<3x16xf32>
  %y = op.matmul %s, %v : tensor<3x16xf32>, tensor<16x8xf32> -> tensor<3x8xf32>
  job.output "y", %y : tensor<3x8xf32>
}

// The least finite number is that of the type of scores.
// CHECK-LABEL: job.job @causal_halves
job.job @causal_halves placement <cuda, [0:0]> {
  %q = job.input "q" : tensor<16x8xf16>
  %k = job.input "k" : tensor<16x8xf16>
  %b = job.input "b" : tensor<16x8xbf16>
  // CHECK: op.attention %q, %k, %k causal 0 :
  // CHECK: op.attention %b, %b, %b causal 0 :
  %zero = op.constant dense<0.0> : tensor<f16>
  %least = op.constant dense<-65504.0> : tensor<f16>
  %m = op.triangle %zero, %least to [16, 16] offset 0 : tensor<f16>, tensor<f16> -> tensor<16x16xf16>
  %p = op.matmul %q, %k transpose_b : tensor<16x8xf16>, tensor<16x8xf16> -> tensor<16x16xf16>
  %a = op.add %p, %m : tensor<16x16xf16>, tensor<16x16xf16> -> tensor<16x16xf16>
  %s = op.softmax %a axis 1 : tensor<16x16xf16> -> tensor<16x16xf16>
  %y = op.matmul %s, %k : tensor<16x16xf16>, tensor<16x8xf16> -> tensor<16x8xf16>
  job.output "y", %y : tensor<16x8xf16>
  %zero2 = op.constant dense<0.0> : tensor<bf16>
  %least2 = op.constant dense<"0x7FFF"> : tensor<bf16>
  %m2 = op.triangle %zero2, %least2 to [16, 16] offset 0 : tensor<bf16>, tensor<bf16> -> tensor<16x16xbf16>
  %p2 = op.matmul %b, %b transpose_b : tensor<16x8xbf16>, tensor<16x8xbf16> -> tensor<16x16xbf16>
  %a2 = op.add %p2, %m2 : tensor<16x16xbf16>, tensor<16x16xbf16> -> tensor<16x16xbf16>
  %s2 = op.softmax %a2 axis 1 : tensor<16x16xbf16> -> tensor<16x16xbf16>
  %y2 = op.matmul %s2, %b : tensor<16x16xbf16>, tensor<16x8xbf16> -> tensor<16x8xbf16>
  job.output "y2", %y2 : tensor<16x8xbf16>
}

// Masks with other numbers stay: scores that are made smaller by 10000 may count, the
// first row may not be without a key, and a row of a mask may be that of all rows.
// CHECK-LABEL: job.job @no_causal
job.job @no_causal placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  %zero = op.constant dense<0.0> : tensor<f32>
  %one = op.constant dense<1.0> : tensor<f32>
  %less = op.constant dense<-10000.0> : tensor<f32>
  %none = op.constant dense<"0x000080FF"> : tensor<f32>
  // CHECK:     op.attention %q, %k, %v mask %small :
  // CHECK:     op.attention %q, %k, %v mask %empty :
  // CHECK:     op.attention %q, %k, %v mask %raised :
  // CHECK:     op.attention %q, %k, %v mask %row :
  %small = op.triangle %zero, %less to [24, 32] offset 8 : tensor<f32>, tensor<f32> -> !m
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a = op.add %p, %small : !s, !m -> !s
  %s = op.softmax %a axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
  %empty = op.triangle %zero, %none to [24, 32] offset -1 : tensor<f32>, tensor<f32> -> !m
  %p2 = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a2 = op.add %p2, %empty : !s, !m -> !s
  %s2 = op.softmax %a2 axis 2 : !s -> !s
  %y2 = op.matmul %s2, %v : !s, !v -> !y
  job.output "y2", %y2 : !y
  %raised = op.triangle %one, %none to [24, 32] offset 8 : tensor<f32>, tensor<f32> -> !m
  %p3 = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a3 = op.add %p3, %raised : !s, !m -> !s
  %s3 = op.softmax %a3 axis 2 : !s -> !s
  %y3 = op.matmul %s3, %v : !s, !v -> !y
  job.output "y3", %y3 : !y
  %row = op.triangle %zero, %none to [1, 32] offset 8 : tensor<f32>, tensor<f32> -> tensor<1x32xf32>
  %p4 = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a4 = op.add %p4, %row : !s, tensor<1x32xf32> -> !s
  %s4 = op.softmax %a4 axis 2 : !s -> !s
  %y4 = op.matmul %s4, %v : !s, !v -> !y
  job.output "y4", %y4 : !y
}

// Nor are scores that are chosen by anything else.
// CHECK-LABEL: job.job @other_choice
job.job @other_choice placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  %c = job.input "c" : tensor<24x32xi1>
  %none = op.constant dense<"0x000080FF"> : tensor<f32>
  // CHECK: no_attention = "scores are made by op.where"
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a = op.where %c, %p, %none : tensor<24x32xi1>, !s, tensor<f32> -> !s
  %s = op.softmax %a axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
  // A triangle of equal numbers hides all or nothing.
  // CHECK: no_attention = "scores are made by op.where"
  %no = op.constant dense<false> : tensor<i1>
  %never = op.triangle %no, %no to [24, 32] offset 0 : tensor<i1>, tensor<i1> -> tensor<24x32xi1>
  %p2 = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a2 = op.where %never, %none, %p2 : tensor<24x32xi1>, tensor<f32>, !s -> !s
  %s2 = op.softmax %a2 axis 2 : !s -> !s
  %y2 = op.matmul %s2, %v : !s, !v -> !y
  job.output "y2", %y2 : !y
}

// Constants that queries and keys are multiplied with are a part of it: 0.5 * 4 * 0.25.
// CHECK-LABEL: job.job @scaled_sides
job.job @scaled_sides placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK-NOT: op.mul
  // CHECK:     %y = op.attention %q, %k, %v scale 5.000000e-01 :
  %half = op.constant dense<0.5> : tensor<f32>
  %four = op.constant dense<4.0> : tensor<1xf32>
  %fourth = op.constant dense<0.25> : tensor<f32>
  %a = op.mul %q, %half : !q, tensor<f32> -> !q
  %b = op.mul %four, %k : tensor<1xf32>, !k -> !k
  %p = op.matmul %a, %b transpose_b : !q, !k -> !s
  %d = op.mul %p, %fourth : !s, tensor<f32> -> !s
  %s = op.softmax %d axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Transposes of operands and of the result are orders of axes, one after the other.
// CHECK-LABEL: job.job @transposes
job.job @transposes placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<24x2x8xf32>
  %k = job.input "k" : tensor<32x2x8xf32>
  %v = job.input "v" : tensor<32x2x16xf32>
  // CHECK-NOT: op.transpose
  // CHECK:     %y = op.attention %q, %k, %v q_by [1, 0, 2] k_by [1, 0, 2] v_by [1, 0, 2] by [1, 0, 2] :
  // CHECK-SAME: -> tensor<24x2x16xf32>
  %a = op.transpose %q by [1, 0, 2] : tensor<24x2x8xf32> -> !q
  %b = op.transpose %k by [1, 2, 0] : tensor<32x2x8xf32> -> !t
  %c = op.transpose %v by [1, 0, 2] : tensor<32x2x16xf32> -> !v
  %p = op.matmul %a, %b : !q, !t -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %o = op.matmul %s, %c : !s, !v -> !y
  %y = op.transpose %o by [1, 0, 2] : !y -> tensor<24x2x16xf32>
  job.output "y", %y : tensor<24x2x16xf32>
}

// Rows of values and of the result stay as they are: elements that do not follow each
// other any more make no vectors.
// CHECK-LABEL: job.job @rows_stay
job.job @rows_stay placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : tensor<2x16x32xf32>
  // CHECK: %[[V:.+]] = op.transpose %v
  // CHECK: %[[O:.+]] = op.attention %q, %k, %[[V]] : tensor<2x24x8xf32>, tensor<2x32x8xf32>, tensor<2x32x16xf32> -> tensor<2x24x16xf32>
  // CHECK: op.transpose %[[O]] by [0, 2, 1]
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %c = op.transpose %v by [0, 2, 1] : tensor<2x16x32xf32> -> !v
  %s = op.softmax %p axis 2 : !s -> !s
  %o = op.matmul %s, %c : !s, !v -> !y
  %y = op.transpose %o by [0, 2, 1] : !y -> tensor<2x16x24xf32>
  job.output "y", %y : tensor<2x16x24xf32>
}

// What others need as well is computed for them, and read by both.
// CHECK-LABEL: job.job @shared_keys
job.job @shared_keys placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !t
  %v = job.input "v" : !v
  // CHECK: %[[B:.+]] = op.transpose %k
  // CHECK: op.attention %q, %[[B]], %v : tensor
  %b = op.transpose %k by [0, 2, 1] : !t -> !k
  job.output "b", %b : !k
  %p = op.matmul %q, %b transpose_b : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Keys and values that are repeated for heads of a group are read where they are: then
// heads are two axes, groups and heads of a group.
// CHECK-LABEL: job.job @groups
job.job @groups placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<24x6x8xf32>
  %k = job.input "k" : tensor<2x32x8xf32>
  %v = job.input "v" : tensor<32x2x16xf32>
  %m = job.input "m" : tensor<6x1x32xf32>
  // CHECK-NOT: op.expand
  // CHECK:     %[[Q:.+]] = op.reshape %q to [24, 2, 3, 8]
  // CHECK:     %[[K:.+]] = op.reshape %k to [2, 1, 32, 8]
  // CHECK:     %[[V:.+]] = op.reshape %v to [32, 2, 1, 16]
  // CHECK:     %[[M:.+]] = op.reshape %m to [2, 3, 1, 32]
  // CHECK:     %[[O:.+]] = op.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] q_by [1, 2, 0, 3] v_by [1, 2, 0, 3] by [2, 0, 1, 3] : {{.*}} -> tensor<24x2x3x16xf32>
  // CHECK:     %y = op.reshape %[[O]] to [24, 6, 16]
  %a = op.transpose %q by [1, 0, 2] : tensor<24x6x8xf32> -> tensor<6x24x8xf32>
  %k0 = op.reshape %k to [2, 32, 8] : tensor<2x32x8xf32> -> tensor<2x32x8xf32>
  %k1 = op.reshape %k0 to [2, 1, 32, 8] : tensor<2x32x8xf32> -> tensor<2x1x32x8xf32>
  %k2 = op.expand %k1 to [2, 3, 32, 8] : tensor<2x1x32x8xf32> -> tensor<2x3x32x8xf32>
  %k3 = op.reshape %k2 to [6, 32, 8] : tensor<2x3x32x8xf32> -> tensor<6x32x8xf32>
  %v0 = op.transpose %v by [1, 0, 2] : tensor<32x2x16xf32> -> tensor<2x32x16xf32>
  %v1 = op.reshape %v0 to [2, 1, 32, 16] : tensor<2x32x16xf32> -> tensor<2x1x32x16xf32>
  %v2 = op.expand %v1 to [2, 3, 32, 16] : tensor<2x1x32x16xf32> -> tensor<2x3x32x16xf32>
  %v3 = op.reshape %v2 to [6, 32, 16] : tensor<2x3x32x16xf32> -> tensor<6x32x16xf32>
  %p = op.matmul %a, %k3 transpose_b : tensor<6x24x8xf32>, tensor<6x32x8xf32> -> tensor<6x24x32xf32>
  %b = op.add %p, %m : tensor<6x24x32xf32>, tensor<6x1x32xf32> -> tensor<6x24x32xf32>
  %s = op.softmax %b axis 2 : tensor<6x24x32xf32> -> tensor<6x24x32xf32>
  %o = op.matmul %s, %v3 : tensor<6x24x32xf32>, tensor<6x32x16xf32> -> tensor<6x24x16xf32>
  %y = op.transpose %o by [1, 0, 2] : tensor<6x24x16xf32> -> tensor<24x6x16xf32>
  job.output "y", %y : tensor<24x6x16xf32>
}

// Where only keys are repeated they stay so.
// CHECK-LABEL: job.job @keys_in_groups
job.job @keys_in_groups placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<24x6x8xf32>
  %k = job.input "k" : tensor<2x32x8xf32>
  %v = job.input "v" : tensor<6x32x16xf32>
  %m = job.input "m" : tensor<6x1x32xf32>
  // CHECK: op.expand
  // CHECK: op.attention %q, %k3, %v mask %m q_by [1, 0, 2] : {{.*}} -> tensor<6x24x16xf32>
  %a = op.transpose %q by [1, 0, 2] : tensor<24x6x8xf32> -> tensor<6x24x8xf32>
  %k0 = op.reshape %k to [2, 32, 8] : tensor<2x32x8xf32> -> tensor<2x32x8xf32>
  %k1 = op.reshape %k0 to [2, 1, 32, 8] : tensor<2x32x8xf32> -> tensor<2x1x32x8xf32>
  %k2 = op.expand %k1 to [2, 3, 32, 8] : tensor<2x1x32x8xf32> -> tensor<2x3x32x8xf32>
  %k3 = op.reshape %k2 to [6, 32, 8] : tensor<2x3x32x8xf32> -> tensor<6x32x8xf32>
  %p = op.matmul %a, %k3 transpose_b : tensor<6x24x8xf32>, tensor<6x32x8xf32> -> tensor<6x24x32xf32>
  %b = op.add %p, %m : tensor<6x24x32xf32>, tensor<6x1x32xf32> -> tensor<6x24x32xf32>
  %s = op.softmax %b axis 2 : tensor<6x24x32xf32> -> tensor<6x24x32xf32>
  %y = op.matmul %s, %v : tensor<6x24x32xf32>, tensor<6x32x16xf32> -> tensor<6x24x16xf32>
  job.output "y", %y : tensor<6x24x16xf32>
}

// So do those that are repeated otherwise, all after each other.
// CHECK-LABEL: job.job @other_repeats
job.job @other_repeats placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<6x24x8xf32>
  %k = job.input "k" : tensor<2x32x8xf32>
  %v = job.input "v" : tensor<2x32x8xf32>
  // CHECK: op.attention %q, %k3, %v3 : {{.*}} -> tensor<6x24x8xf32>
  %k2 = op.expand %k to [3, 2, 32, 8] : tensor<2x32x8xf32> -> tensor<3x2x32x8xf32>
  %k3 = op.reshape %k2 to [6, 32, 8] : tensor<3x2x32x8xf32> -> tensor<6x32x8xf32>
  %v2 = op.expand %v to [3, 2, 32, 8] : tensor<2x32x8xf32> -> tensor<3x2x32x8xf32>
  %v3 = op.reshape %v2 to [6, 32, 8] : tensor<3x2x32x8xf32> -> tensor<6x32x8xf32>
  %p = op.matmul %q, %k3 transpose_b : tensor<6x24x8xf32>, tensor<6x32x8xf32> -> tensor<6x24x32xf32>
  %s = op.softmax %p axis 2 : tensor<6x24x32xf32> -> tensor<6x24x32xf32>
  %y = op.matmul %s, %v3 : tensor<6x24x32xf32>, tensor<6x32x8xf32> -> tensor<6x24x8xf32>
  job.output "y", %y : tensor<6x24x8xf32>
}

// Two products with one softmax need it.
// CHECK-LABEL: job.job @shared_shares
job.job @shared_shares placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "shares are used by others, too"}
  // CHECK: op.matmul
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "s", %s : !s
  job.output "y", %y : !y
}

// So do others that read scores.
// CHECK-LABEL: job.job @shared_scores
job.job @shared_scores placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "scores are used by others, too"}
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  job.output "p", %p : !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Scores that come from outside are there already.
// CHECK-LABEL: job.job @given_scores
job.job @given_scores placement <cpu, [0:0]> {
  %p = job.input "p" : !s
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "scores are made by job.input"}
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Anything else between is computed for all scores.
// CHECK-LABEL: job.job @changed_scores
job.job @changed_scores placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "scores are made by op.tanh"}
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %h = op.tanh %p : !s -> !s
  %s = op.softmax %h axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// A mask is not scaled.
// CHECK-LABEL: job.job @scaled_mask
job.job @scaled_mask placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  %m = job.input "m" : !m
  // CHECK: op.softmax {{.*}} {no_attention = "scores are made by op.add"}
  %two = op.constant dense<2.0> : tensor<f32>
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a = op.add %p, %m : !s, !m -> !s
  %b = op.mul %a, %two : !s, tensor<f32> -> !s
  %s = op.softmax %b axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// There is one mask.
// CHECK-LABEL: job.job @two_masks
job.job @two_masks placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  %m = job.input "m" : !m
  // CHECK: op.softmax {{.*}} {no_attention = "scores are not made by op.matmul"}
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a = op.add %p, %m : !s, !m -> !s
  %b = op.add %a, %m : !s, !m -> !s
  %s = op.softmax %b axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Nothing is divided by 0.
// CHECK-LABEL: job.job @quotients
job.job @quotients placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "scores are made by op.div"}
  %zero = op.constant dense<0.0> : tensor<f32>
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %a = op.div %p, %zero : !s, tensor<f32> -> !s
  %s = op.softmax %a axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Few keys are not worth it.
// CHECK-LABEL: job.job @few_keys
job.job @few_keys placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<24x8xf32>
  %k = job.input "k" : tensor<15x8xf32>
  %v = job.input "v" : tensor<15x8xf32>
  // CHECK: op.softmax {{.*}} {no_attention = "15 keys are less than 16"}
  %p = op.matmul %q, %k transpose_b : tensor<24x8xf32>, tensor<15x8xf32> -> tensor<24x15xf32>
  %s = op.softmax %p axis 1 : tensor<24x15xf32> -> tensor<24x15xf32>
  %y = op.matmul %s, %v : tensor<24x15xf32>, tensor<15x8xf32> -> tensor<24x8xf32>
  job.output "y", %y : tensor<24x8xf32>
}

// Devices compute it in blocks, too, also of 16 bits, if these have room for rows.
// CHECK-LABEL: job.job @devices
// CHECK:         op.attention %q, %k, %v : tensor<24x8xf16>, tensor<32x8xf16>, tensor<32x8xf16>
// CHECK:         op.softmax {{.*}} {no_attention = "rows of 264 elements are longer than 256"}
// CHECK:         op.softmax {{.*}} {no_attention = "rows of 136 elements are longer than 128"}
job.job @devices placement <cuda, [0:0]> {
  %q = job.input "q" : tensor<24x8xf16>
  %k = job.input "k" : tensor<32x8xf16>
  %v = job.input "v" : tensor<32x8xf16>
  %p = op.matmul %q, %k transpose_b : tensor<24x8xf16>, tensor<32x8xf16> -> tensor<24x32xf16>
  %s = op.softmax %p axis 1 : tensor<24x32xf16> -> tensor<24x32xf16>
  %y = op.matmul %s, %v : tensor<24x32xf16>, tensor<32x8xf16> -> tensor<24x8xf16>
  job.output "y", %y : tensor<24x8xf16>
  %l = job.input "l" : tensor<32x264xf16>
  %a = op.matmul %l, %l transpose_b : tensor<32x264xf16>, tensor<32x264xf16> -> tensor<32x32xf16>
  %b = op.softmax %a axis 1 : tensor<32x32xf16> -> tensor<32x32xf16>
  %c = op.matmul %b, %v : tensor<32x32xf16>, tensor<32x8xf16> -> tensor<32x8xf16>
  job.output "c", %c : tensor<32x8xf16>
  %m = job.input "m" : tensor<32x8xf64>
  %w = job.input "w" : tensor<32x136xf64>
  %d = op.matmul %m, %m transpose_b : tensor<32x8xf64>, tensor<32x8xf64> -> tensor<32x32xf64>
  %e = op.softmax %d axis 1 : tensor<32x32xf64> -> tensor<32x32xf64>
  %f = op.matmul %e, %w : tensor<32x32xf64>, tensor<32x136xf64> -> tensor<32x136xf64>
  job.output "f", %f : tensor<32x136xf64>
}

// Kernels of other kinds of devices have no blocks.
// CHECK-LABEL: job.job @other_devices
job.job @other_devices placement <sim, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "no blocks compute it on sim"}
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Ops stay where they run.
// CHECK-LABEL: job.job @places
job.job @places placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "op.matmul runs in another place"}
  %p = op.matmul %q, %k transpose_b {placement = #job.placement<cpu, [0:1]>} : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Ops that have several slots stay.
// CHECK-LABEL: job.job @slots
job.job @slots placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "op.matmul asks for slots"}
  %p = op.matmul %q, %k transpose_b {slots = 2 : i64} : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// So do ops that must write over something.
// CHECK-LABEL: job.job @hints
job.job @hints placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}}no_attention = "op.softmax has to write over something, or before others"
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %s = op.softmax %p axis 2 {in_place = [#op.hint<must over 0>]} : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Ops that say how they run in parts do, too.
// CHECK-LABEL: job.job @parts
job.job @parts placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK: op.softmax {{.*}} {no_attention = "op.matmul runs in parts"}
  %p = op.matmul %q, %k transpose_b {sbp = #job.sbp<B>} : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Shares that lie by terms are none of rows.
// CHECK-LABEL: job.job @other_axis
job.job @other_axis placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : !v
  // CHECK:     op.softmax {{[^{]*}} : tensor
  // CHECK-NOT: no_attention
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %s = op.softmax %p axis 1 : !s -> !s
  %y = op.matmul %s, %v : !s, !v -> !y
  job.output "y", %y : !y
}

// Elements of 16 bits need sums of more.
// CHECK-LABEL: job.job @halves
job.job @halves placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<24x8xf16>
  %k = job.input "k" : tensor<32x8xf16>
  %v = job.input "v" : tensor<32x8xf16>
  // CHECK: op.softmax {{.*}} {no_attention = "attention is for f32 and f64, not f16"}
  %p = op.matmul %q, %k transpose_b : tensor<24x8xf16>, tensor<32x8xf16> -> tensor<24x32xf16>
  %s = op.softmax %p axis 1 : tensor<24x32xf16> -> tensor<24x32xf16>
  %y = op.matmul %s, %v : tensor<24x32xf16>, tensor<32x8xf16> -> tensor<24x8xf16>
  job.output "y", %y : tensor<24x8xf16>
}

// Values that lie by columns make no vectors.
// CHECK-LABEL: job.job @turned_values
job.job @turned_values placement <cpu, [0:0]> {
  %q = job.input "q" : !q
  %k = job.input "k" : !k
  %v = job.input "v" : tensor<2x16x32xf32>
  // CHECK: op.softmax {{.*}} {no_attention = "the elements of values do not follow each other"}
  %p = op.matmul %q, %k transpose_b : !q, !k -> !s
  %s = op.softmax %p axis 2 : !s -> !s
  %y = op.matmul %s, %v transpose_b : !s, tensor<2x16x32xf32> -> !y
  job.output "y", %y : !y
}

// Shapes have to be known.
// CHECK-LABEL: job.job @dynamic
job.job @dynamic placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<?x8xf32>
  %k = job.input "k" : tensor<32x8xf32>
  %v = job.input "v" : tensor<32x8xf32>
  // CHECK: op.softmax {{.*}} {no_attention = "shapes are not known"}
  %p = op.matmul %q, %k transpose_b : tensor<?x8xf32>, tensor<32x8xf32> -> tensor<?x32xf32>
  %s = op.softmax %p axis 1 : tensor<?x32xf32> -> tensor<?x32xf32>
  %y = op.matmul %s, %v : tensor<?x32xf32>, tensor<32x8xf32> -> tensor<?x8xf32>
  job.output "y", %y : tensor<?x8xf32>
}

// A row of queries is no matrix.
// CHECK-LABEL: job.job @vector
job.job @vector placement <cpu, [0:0]> {
  %q = job.input "q" : tensor<8xf32>
  %k = job.input "k" : tensor<2x32x8xf32>
  %v = job.input "v" : tensor<32x8xf32>
  // CHECK: op.softmax {{.*}} {no_attention = "queries and keys should be matrices"}
  %p = op.matmul %q, %k transpose_b : tensor<8xf32>, tensor<2x32x8xf32> -> tensor<2x32xf32>
  %s = op.softmax %p axis 1 : tensor<2x32xf32> -> tensor<2x32xf32>
  %y = op.matmul %s, %v : tensor<2x32xf32>, tensor<32x8xf32> -> tensor<2x8xf32>
  job.output "y", %y : tensor<2x8xf32>
}
