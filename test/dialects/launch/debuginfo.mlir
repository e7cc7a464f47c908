// Locations of a program are printed where that is asked for, those of the arguments of
// kernels too, and are read back.
// RUN: penstock-opt %s --print-debuginfo | penstock-opt --print-debuginfo | filecheck %s

// CHECK-LABEL: launch.program @names rank 0
launch.program @names rank 0 {
  // CHECK: launch.kernel @zero target "cpu" (%o: memref<4xf32> loc(unknown))
  launch.kernel @zero target "cpu" (%o: memref<4xf32>) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : memref<4xf32>)
  }
  launch.chunk @c0 on <0, host> size 64
  launch.register @o in @c0 at 0 slots 1 : memref<4xf32>
  // CHECK: launch.actor @a
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@o] {
    launch.call @zero [@o]
  // CHECK: } loc(fused["/layers.0/Relu"("m.onnx":1:1), "/layers.0/Add"])
  } loc(fused["/layers.0/Relu"("m.onnx":1:1), "/layers.0/Add"])
}
