// The text of the IR, in its custom and in its generic form, is read back the same.
// RUN: penstock-opt %s --verify-roundtrip | filecheck %s

// The generic form can be asked for in the spelling of mlir-opt.
// RUN: penstock-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC

// CHECK:   op.relu
// GENERIC: "op.relu"
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %y = op.relu %x : tensor<4xf32> -> tensor<4xf32>
  job.output "y", %y : tensor<4xf32>
}
