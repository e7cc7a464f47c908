// RUN: penstock-opt %s --pipeline cpu | filecheck %s

// Ops that change rates become actors whose pieces last for several acts. What they only
// show lies in what they read.
// CHECK-LABEL: launch.program @batches
// CHECK:      launch.register @"u/out" in @c0 at [[R:[0-9]+]] slots 4 over @"r/out"
// CHECK:      launch.register @"t/out" in @c0 at [[S:[0-9]+]] slots 4 over @"s/out"
job.job @batches placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<2x8xf32>
  // CHECK:      launch.actor @b {{.*}} reads [@"x/out"] writes [@"b/out"] every [@"b/out" = 4] {
  // CHECK-NEXT:   launch.copy @"x/out" to @"b/out"
  %b = op.pack %x by 4 : tensor<2x8xf32> -> tensor<8x8xf32>
  // CHECK:      launch.actor @r {{.*}} writes [@"r/out"] {
  %r = op.relu %b : tensor<8x8xf32> -> tensor<8x8xf32>
  // CHECK:      launch.actor @u {{.*}} writes [@"u/out"] every [@"r/out" = 4{{.*}}] {
  // CHECK-NEXT: }
  %u = op.unpack %r by 4 : tensor<8x8xf32> -> tensor<2x8xf32>
  // CHECK:      launch.actor @s {{.*}} writes [@"s/out"{{.*}} every [@"s/out" = 4, {{.*}} {
  // CHECK-NEXT:   launch.copy @"u/out" to @"s/out" {when = "first"}
  // CHECK-NEXT:   launch.call @acc_{{.*}} [@"u/out", @"s/out"] {when = "rest"}
  %s = op.acc %u every 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  // CHECK:      launch.actor @t {{.*}} writes [@"t/out"] every [@"s/out" = 4{{.*}}] {
  // CHECK-NEXT: }
  %t = op.repeat %s times 4 : tensor<2x8xf32> -> tensor<2x8xf32>
  %d = op.sub %u, %t : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  job.output "d", %d : tensor<2x8xf32>
}

// All terms wait for their sum: there are slots for them.
// CHECK-LABEL: launch.program @waiting
// CHECK: launch.register @"x/out" in @c0 at {{[0-9]+}} slots 6
job.job @waiting placement <cpu, [0:0]> {
  %x = job.input "z" : tensor<4xf32>
  %s = op.acc %x every 6 : tensor<4xf32> -> tensor<4xf32>
  %t = op.repeat %s times 6 : tensor<4xf32> -> tensor<4xf32>
  %d = op.sub %x, %t : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "e", %d : tensor<4xf32>
}
