// A launch program that was written by hand: the sums of the squares of the rows of x,
// by one kernel that no op of ours has. The input has two slots, so that the next one is
// taken in while a sum is computed.
//
//   penstock-run examples/program.mlir --random-inputs 1 --outputs squares.npz

#element = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

launch.program @squares rank 0 {
  launch.chunk @memory on <0, host> size 320
  launch.register @x in @memory at 0 slots 2 : memref<4x8xf32>
  launch.register @y in @memory at 256 slots 1 : memref<4xf32>

  launch.kernel @sum_of_squares target "cpu" (%x: memref<4x8xf32>, %y: memref<4xf32>) {
    %zero = arith.constant 0.0 : f32
    linalg.fill ins(%zero : f32) outs(%y : memref<4xf32>)
    linalg.generic {
      indexing_maps = [#element, #row], iterator_types = ["parallel", "reduction"]
    } ins(%x : memref<4x8xf32>) outs(%y : memref<4xf32>) {
    ^bb0(%a: f32, %sum: f32):
      %square = arith.mulf %a, %a : f32
      %next = arith.addf %sum, %square : f32
      linalg.yield %next : f32
    }
  }

  launch.actor @feed on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.feed "x" to @x
  }
  launch.actor @sum on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @sum_of_squares [@x, @y]
  }
  launch.actor @fetch on <0, cpu:0> stream 0 reads [@y] writes [] {
    launch.fetch "y" from @y
  }
}
