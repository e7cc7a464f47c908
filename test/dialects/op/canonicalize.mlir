// RUN: penstock-opt %s -p canonicalize --split-input-file | filecheck %s

// Only the last of two reshapes counts.

// CHECK-LABEL: func.func @reshape_of_reshape
func.func @reshape_of_reshape(%a: tensor<4x3xf32>) -> tensor<2x6xf32> {
  // CHECK-NEXT: %[[R:.+]] = op.reshape %a to [2, -1] {acme.keep} : tensor<4x3xf32> -> tensor<2x6xf32>
  // CHECK-NEXT: func.return %[[R]]
  %0 = op.reshape %a to [12] : tensor<4x3xf32> -> tensor<12xf32>
  %1 = op.reshape %0 to [2, -1] {acme.keep} : tensor<12xf32> -> tensor<2x6xf32>
  return %1 : tensor<2x6xf32>
}

// A reshape to the operand's own shape goes away, so that a round trip does.

// CHECK-LABEL: func.func @reshape_and_back
func.func @reshape_and_back(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.reshape %a to [12] : tensor<4x3xf32> -> tensor<12xf32>
  %1 = op.reshape %0 to [4, 3] : tensor<12xf32> -> tensor<4x3xf32>
  return %1 : tensor<4x3xf32>
}

// A reshape that says how its result lies on several devices stays, as does one that says so between two, unless its operand lies like it.

// CHECK-LABEL: job.job @layouts
job.job @layouts placement <cpu, [0:0-1]> {
  // CHECK-NEXT: %a = job.input "a"
  %a = job.input "a" {sbp = #job.sbp<S(0)>} : tensor<4x2xf32>
  // CHECK-NEXT: %b = op.reshape %a to [4, 2] {sbp = #job.sbp<B>}
  %b = op.reshape %a to [4, 2] {sbp = #job.sbp<B>} : tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT: %c = op.reshape %b to [8]
  %c = op.reshape %b to [8] : tensor<4x2xf32> -> tensor<8xf32>
  %d = op.reshape %a to [4, 2] {sbp = #job.sbp<S(0)>} : tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT: %e = job.boxing %a
  %e = job.boxing %a from <S(0)> on <cpu, [0:0-1]> to <B> on <cpu, [0:0-1]> : tensor<4x2xf32>
  %f = op.reshape %e to [4, 2] {sbp = #job.sbp<B>} : tensor<4x2xf32> -> tensor<4x2xf32>
  // CHECK-NEXT: job.output "c", %c
  job.output "c", %c : tensor<8xf32>
  // CHECK-NEXT: job.output "d", %a
  job.output "d", %d : tensor<4x2xf32>
  // CHECK-NEXT: job.output "f", %e
  job.output "f", %f : tensor<4x2xf32>
}

// Types that leave extents open do not show that nothing changes.

// CHECK-LABEL: func.func @reshape_of_unknown_shape
func.func @reshape_of_unknown_shape(%a: tensor<?x?xf32>) -> tensor<?x?xf32> {
  // CHECK-NEXT: op.reshape
  %0 = op.reshape %a to [2, -1] : tensor<?x?xf32> -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// A value between two reshapes stays if something else needs it.

// CHECK-LABEL: func.func @reshape_of_used_reshape
func.func @reshape_of_used_reshape(%a: tensor<4x3xf32>) -> (tensor<12xf32>, tensor<6x2xf32>) {
  // CHECK-NEXT: op.reshape %a to [12]
  // CHECK-NEXT: op.reshape %a to [6, 2]
  %0 = op.reshape %a to [12] : tensor<4x3xf32> -> tensor<12xf32>
  %1 = op.reshape %0 to [6, 2] : tensor<12xf32> -> tensor<6x2xf32>
  return %0, %1 : tensor<12xf32>, tensor<6x2xf32>
}

// -----

// Two permutations are one: axis i is axis p[q[i]].

// CHECK-LABEL: func.func @transpose_of_transpose
func.func @transpose_of_transpose(%a: tensor<2x3x4xf32>) -> tensor<3x2x4xf32> {
  // p = [1, 2, 0] and q = [0, 2, 1] give [p[0], p[2], p[1]].
  // CHECK-NEXT: op.transpose %a by [1, 0, 2] {acme.keep} : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %0 = op.transpose %a by [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = op.transpose %0 by [0, 2, 1] {acme.keep} : tensor<3x4x2xf32> -> tensor<3x2x4xf32>
  return %1 : tensor<3x2x4xf32>
}

// CHECK-LABEL: func.func @transpose_and_back
func.func @transpose_and_back(%a: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.transpose %a by [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = op.transpose %0 by [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// A type does not tell whether equal axes are swapped.

// CHECK-LABEL: func.func @transpose_of_square
func.func @transpose_of_square(%a: tensor<3x3xf32>) -> tensor<3x3xf32> {
  // CHECK-NEXT: op.transpose
  %0 = op.transpose %a by [1, 0] : tensor<3x3xf32> -> tensor<3x3xf32>
  return %0 : tensor<3x3xf32>
}

// An identity that tells more of the type than its operand stays.

// CHECK-LABEL: func.func @transpose_to_known_shape
func.func @transpose_to_known_shape(%a: tensor<?x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: op.transpose
  %0 = op.transpose %a by [0, 1] : tensor<?x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @expand_to_same_type
func.func @expand_to_same_type(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.expand %a to [4, 3] : tensor<4x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @expand_of_unknown_shape
func.func @expand_of_unknown_shape(%a: tensor<?xf32>) -> tensor<?xf32> {
  // CHECK-NEXT: op.expand
  %0 = op.expand %a to [4] : tensor<?xf32> -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// CHECK-LABEL: func.func @concat_of_one
func.func @concat_of_one(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.concat %a axis 0 : tensor<?x3xf32> -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @concat_of_two
func.func @concat_of_two(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
  // CHECK-NEXT: op.concat %a, %a
  %0 = op.concat %a, %a axis 0 : tensor<?x3xf32>, tensor<?x3xf32> -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @concat_to_known_shape
func.func @concat_to_known_shape(%a: tensor<?x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: op.concat
  %0 = op.concat %a axis 0 : tensor<?x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: func.func @split_into_one
func.func @split_into_one(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.split %a axis 1 sizes [3] : tensor<4x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @split_to_known_shape
func.func @split_to_known_shape(%a: tensor<4x?xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: op.split
  %0 = op.split %a axis 1 sizes [3] : tensor<4x?xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// A part may be as large as the whole if the others are empty.

// CHECK-LABEL: func.func @split_into_two
func.func @split_into_two(%a: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x0xf32>) {
  // CHECK-NEXT: op.split
  %0, %1 = op.split %a axis 1 sizes [3, 0] : tensor<4x3xf32> -> tensor<4x3xf32>, tensor<4x0xf32>
  return %0, %1 : tensor<4x3xf32>, tensor<4x0xf32>
}

// -----

// A slice is everything if it takes as many elements as there are, one by one.

// CHECK-LABEL: func.func @slice_of_everything
func.func @slice_of_everything(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.slice %a from [-9, 0] to [4, 99] by [1, 1] : tensor<4x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @slice_backwards
func.func @slice_backwards(%a: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // CHECK-NEXT: op.slice
  %0 = op.slice %a from [0, -1] to [4, -99] by [1, -1] : tensor<4x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @slice_of_unknown_shape
func.func @slice_of_unknown_shape(%a: tensor<?xf32>) -> tensor<?xf32> {
  // CHECK-NEXT: op.slice
  %0 = op.slice %a from [1] to [4] by [1] : tensor<?xf32> -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

// CHECK-LABEL: func.func @pad_by_nothing
func.func @pad_by_nothing(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
  // CHECK-NEXT: func.return %a
  %0 = op.pad %a before [0, 0] after [0, 0] mode reflect : tensor<?x3xf32> -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @pad_after
func.func @pad_after(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
  // CHECK-NEXT: op.pad
  %0 = op.pad %a before [0, 0] after [1, 0] : tensor<?x3xf32> -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @pad_to_known_shape
func.func @pad_to_known_shape(%a: tensor<?x3xf32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: op.pad
  %0 = op.pad %a before [0, 0] after [0, 0] : tensor<?x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
