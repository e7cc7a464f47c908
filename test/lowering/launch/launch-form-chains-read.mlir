// RUN: penstock-opt %s -p launch-form-chains | filecheck %s

!x = memref<16xf32>

// What somebody reads is not written over before, though nothing keeps the actors apart.
// CHECK-LABEL: launch.program @read
launch.program @read rank 0 {
  launch.chunk @c0 on <0, host> size 256
  launch.register @ra in @c0 at 0 slots 1 : !x
  launch.register @rb in @c0 at 0 slots 1 : !x
  launch.kernel @fill target "cpu" (%o: !x) attributes {cost = {bytes = 64 : i64, flops = 0 : i64, op = "op.fill"}} {
    %z = arith.constant 1.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !x)
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@ra] {
    launch.call @fill [@ra]
  }
  // CHECK: launch.actor @b {{.*}}no_chain = "bytes: others read @ra, which it writes over"
  launch.actor @b on <0, cpu:0> stream 0 reads [] writes [@rb] {
    launch.call @fill [@rb]
  }
  launch.actor @out on <0, cpu:0> stream 0 reads [@ra] writes [] {
    launch.fetch "a" from @ra
  }
}
