// RUN: penstock-opt %s -p launch-order-commits,verify-program --split-input-file | filecheck %s
// RUN: penstock-opt %s -p launch-order-commits,launch-order-commits,verify-program --split-input-file | filecheck %s

// A kernel that has a source may fail, so what writes variables waits for a commit behind
// it, but for what comes after it anyway.

!t = memref<4xf32>

// CHECK-LABEL: launch.program @given
// CHECK:       launch.control @"g_ -> commit" slots 2
// CHECK-NEXT:  launch.control @"commit -> w_" slots 1
// CHECK-NOT:   launch.control
// CHECK:       launch.actor @g_ on <0, cpu:0> stream 0 can_fail reads [] writes [@g, @"g_ -> commit"]
// CHECK:       launch.actor @commit on <0, cpu:0> stream 1 reads [@"g_ -> commit"] writes [@"commit -> w_"] {
// CHECK-NEXT:    launch.commit
// CHECK:       launch.actor @w_ {{.*}} reads [@"commit -> w_"] writes []
// CHECK:       launch.actor @u_ {{.*}} reads [@g] writes []
launch.program @given rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.variable @v in @c at 128 init <ones> : !t
  launch.register @g in @c at 192 slots 1 : !t
  launch.kernel @fill target "cpu" (%o: !t) attributes {source = "pass"} {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !t)
  }
  launch.actor @g_ on <0, cpu:0> stream 0 can_fail reads [] writes [@g] { launch.call @fill [@g] }
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.copy @v to @w }
  launch.actor @u_ on <0, cpu:0> stream 0 reads [@g] writes [] { launch.copy @g to @u }
}

// -----

// A commit that is there is used, and each job has its own.

!t = memref<4xf32>

// CHECK-LABEL: launch.program @jobs
// CHECK-DAG:   launch.control @"h_ -> commit" slots 2
// CHECK-DAG:   launch.control @"g_ -> commit_1" slots 2
// CHECK-DAG:   launch.control @"commit_1 -> w_" slots 1
// CHECK-NOT:   launch.control
// CHECK:       launch.actor @commit job "a" {{.*}} reads [@k, @"h_ -> commit"] writes [@l]
// CHECK:       launch.actor @commit_1 job "b" {{.*}} reads [@"g_ -> commit_1"] writes [@"commit_1 -> w_"]
launch.program @jobs rank 0 exclusive [["a", "b"]] {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @u in @c at 64 init <ones> : !t
  launch.variable @v in @c at 128 init <ones> : !t
  launch.control @k slots 2
  launch.control @l slots 1
  launch.actor @f_ job "a" on <0, cpu:0> stream 0 can_fail reads [] writes [@k] { }
  launch.actor @h_ job "a" on <0, cpu:0> stream 0 can_fail reads [] writes [] { }
  launch.actor @commit job "a" on <0, cpu:0> stream 1 reads [@k] writes [@l] { launch.commit }
  launch.actor @u_ job "a" on <0, cpu:0> stream 0 reads [@l] writes [] { launch.copy @v to @u }
  launch.actor @g_ job "b" on <0, cpu:0> stream 0 can_fail reads [] writes [] { }
  launch.actor @w_ job "b" on <0, cpu:0> stream 0 reads [] writes [] { launch.copy @v to @w }
}

// -----

// On a device what reads what may have failed waits for the commit, too.

!t = memref<4xf32>

// CHECK-LABEL: launch.program @device
// CHECK:       launch.actor @u_ {{.*}} reads [@g, @"commit -> u_"] writes []
launch.program @device rank 0 {
  launch.chunk @c on <0, device cuda:0> size 256
  launch.variable @u in @c at 64 init <ones> : !t
  launch.register @g in @c at 192 slots 1 : !t
  launch.kernel @fill target "cuda" (%o: !t) {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%o : !t)
  }
  launch.actor @g_ on <0, cuda:0> stream 0 can_fail reads [] writes [@g] { launch.call @fill [@g] }
  launch.actor @u_ on <0, cuda:0> stream 0 reads [@g] writes [] { launch.copy @g to @u }
}

// -----

// Where nothing can fail, or nothing is written, there is nothing to be done.

!t = memref<4xf32>

// CHECK-LABEL: launch.program @certain
// CHECK-NOT:   commit
launch.program @certain rank 0 {
  launch.chunk @c on <0, host> size 256
  launch.variable @w in @c at 0 init <ones> : !t
  launch.variable @v in @c at 128 init <ones> : !t
  launch.actor @w_ on <0, cpu:0> stream 0 reads [] writes [] { launch.copy @v to @w }
}

// CHECK-LABEL: launch.program @reads
// CHECK-NOT:   commit
launch.program @reads rank 0 {
  launch.actor @g_ on <0, cpu:0> stream 0 can_fail reads [] writes [] { }
}
