// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-alias-registers --split-input-file | filecheck %s
// RUN: penstock-opt %s -p convert-job-to-plan,plan-assign-streams,plan-create-registers,regst-alias-registers,regst-plan-memory,verify-plan,convert-plan-to-launch --split-input-file | filecheck %s --check-prefix=PROGRAM

// A result is written over an operand that nobody reads later: of these it is the first
// one. Aliases name what they lie on in the end.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @in_place
// CHECK:         %[[X:.+]] = regst.register "x/out" slots 1
// CHECK:         regst.register "y/out" slots 1
// CHECK:         regst.register "a/out" alias %[[X]] : !regst.data<tensor<4x4xf32>> slots 1 on <0, host> : !regst.data<tensor<4x4xf32>>
// CHECK-NEXT:    regst.register "b/out" alias %[[X]] :
// CHECK-NOT:     regst.control
// PROGRAM-LABEL: launch.program @in_place
// PROGRAM:         launch.kernel @add_0 target "cpu" (%{{.+}}: memref<4x4xf32>, %{{.+}}: memref<4x4xf32>)
// PROGRAM:         launch.call @add_0 [@"y/out", @"a/out"]
// PROGRAM:         launch.actor @b_1 {{.*}} reads [@"b/out", @"x/out"
job.job @in_place placement <cpu, [0:0]> {
  %x0 = job.input "x0" : !t
  %x = op.exp %x0 : !t -> !t
  %y0 = job.input "y0" : !t
  %y = op.exp %y0 : !t -> !t
  %a = op.add %x, %y : !t, !t -> !t
  %b = op.softmax %a : !t -> !t
  job.output "b", %b : !t
}

// -----

// Nothing is written over an input, which would have to be copied then, unless a hint
// asks for it or it is in a register of several slots anyway.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @input
// CHECK:         %[[X:.+]] = regst.register "x/out" slots 1
// CHECK:         %[[Y:.+]] = regst.register "y/out" slots 1
// CHECK:         regst.register "a/out" slots 1 on <0, host> {no_alias = "input: 'x' is read where the caller has it"}
// CHECK:         regst.register "b/out" alias %[[Y]]
job.job @input placement <cpu, [0:0]> {
  %x = job.input "x" : !t
  %y = job.input "y" : !t
  %a = op.relu %x : !t -> !t
  %b = op.relu %y {in_place = [#op.hint<may over 0>]} : !t -> !t
  job.output "a", %a : !t
  job.output "b", %b : !t
}

// -----

// Who reads it before is no obstacle: where only the stream says that it comes before,
// a control register does then. Between `s` and `m` the data does.

!t = tensor<4x4xf32>

// CHECK-LABEL: plan.plan @before
// CHECK:         %[[X:.+]] = regst.register "x/out"
// CHECK:         regst.register "early/out" slots 1 on <0, host> {no_alias = "reader: 'm' may read it later"}
// CHECK:         regst.register "s/out" slots 1 on
// CHECK:         regst.register "m/out" alias %[[X]]
// CHECK:         %[[K:.+]] = regst.register "early -> m" slots 1 on <0, host> : !regst.control
// CHECK-NOT:     regst.register
// CHECK:         plan.task "early" {{.*}} signals(%[[K]] : !regst.control)
// CHECK:         plan.task "m" {{.*}} waits(%[[K]] : !regst.control)
job.job @before placement <cpu, [0:0]> {
  %x0 = job.input "x0" : !t
  %x = op.exp %x0 : !t -> !t
  %early = op.relu %x : !t -> !t
  %s = op.reduce_sum %x axes [0] : !t -> tensor<4xf32>
  %m = op.add %x, %s : !t, tensor<4xf32> -> !t
  job.output "early", %early : !t
  job.output "m", %m : !t
}

// -----

// What moves no bytes does nothing, whoever reads what: reshapes, slices and splits of
// what follows each other. It may be a variable.

// CHECK-LABEL: plan.plan @views
// CHECK:         %[[X:.+]] = regst.register "x/out"
// CHECK:         %[[W:.+]] = regst.register "w/out"
// CHECK:         regst.register "f/out" alias %[[X]] : !regst.data<tensor<4x4xf32>> slots 1 on <0, host> : !regst.data<tensor<16xf32>>
// CHECK:         regst.register "s/out" alias %[[X]] : !regst.data<tensor<4x4xf32>> at 16 slots 1 on <0, host> : !regst.data<tensor<8xf32>>
// CHECK:         regst.register "p/out" alias %[[X]] : !regst.data<tensor<4x4xf32>> at 16 slots
// CHECK-NEXT:    regst.register "p/out_1" alias %[[X]] : !regst.data<tensor<4x4xf32>> at 28 slots
// CHECK:         regst.register "v/out" alias %[[W]]
// PROGRAM-LABEL: launch.program @views
// PROGRAM:         launch.actor @f {{.*}} reads [@"x/out"{{.*}}] writes [@"f/out"{{.*}}] {
// PROGRAM-NEXT:    }
// PROGRAM:         launch.actor @v {{.*}} writes [@"v/out"{{.*}}] {
// PROGRAM-NEXT:    }
job.job @views placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4x4xf32>
  %w = job.variable "w" init <ones> : tensor<2x2xf32>
  %f = op.reshape %x to [16] : tensor<4x4xf32> -> tensor<16xf32>
  %s = op.slice %f from [4] to [12] by [1] : tensor<16xf32> -> tensor<8xf32>
  %p, %q = op.split %s axis 0 sizes [3, 5] : tensor<8xf32> -> tensor<3xf32>, tensor<5xf32>
  %v = op.reshape %w to [4] : tensor<2x2xf32> -> tensor<4xf32>
  job.output "x", %x : tensor<4x4xf32>
  job.output "p", %p : tensor<3xf32>
  job.output "q", %q : tensor<5xf32>
  job.output "v", %v : tensor<4xf32>
}

// -----

// Those who make the operands of a concatenation write to where they belong. The result
// is listed before its parts then. What is written over such a part stays in it, and the
// result of one concatenation may be a part of another one.

// CHECK-LABEL: plan.plan @gather
// CHECK:         %[[D:.+]] = regst.register "d/out" slots 1
// CHECK-NEXT:    regst.register "x/out" alias %[[D]] : !regst.data<tensor<6x4xf32>> slots
// CHECK-NEXT:    regst.register "y/out" alias %[[D]] : !regst.data<tensor<6x4xf32>> at 32 slots
// CHECK-NEXT:    regst.register "r/out" alias %[[D]] : !regst.data<tensor<6x4xf32>> at 32 slots
// CHECK-NEXT:    regst.register "c/out" alias %[[D]] : !regst.data<tensor<6x4xf32>> slots
// CHECK-NEXT:    regst.register "z/out" alias %[[D]] : !regst.data<tensor<6x4xf32>> at 64 slots
// PROGRAM-LABEL: launch.program @gather
// PROGRAM:         launch.actor @c {{.*}} reads [@"x/out", @"r/out", @"y/out"{{.*}}] writes [@"c/out"{{.*}}] {
// PROGRAM-NEXT:    }
// PROGRAM:         launch.actor @d_1 {{.*}} reads [@"d/out", @"x/out", @"y/out", @"z/out"
job.job @gather placement <cpu, [0:0]> {
  %y0 = job.input "y0" : tensor<2x4xf32>
  %x = job.input "x" : tensor<2x4xf32>
  %y = op.exp %y0 : tensor<2x4xf32> -> tensor<2x4xf32>
  %r = op.relu %y : tensor<2x4xf32> -> tensor<2x4xf32>
  %c = op.concat %x, %r axis 0 : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<4x4xf32>
  %z = job.input "z" : tensor<2x4xf32>
  %d = op.concat %c, %z axis 0 : tensor<4x4xf32>, tensor<2x4xf32> -> tensor<6x4xf32>
  job.output "d", %d : tensor<6x4xf32>
}

// -----

// Views of one register are judged together: all of its bytes are in use until "c" then, but
// there is no copy of any. One of them alone would keep all, and leave a copy of the other.

// CHECK-LABEL: plan.plan @together
// CHECK:         %[[X:.+]] = regst.register "x/out" slots
// CHECK:         regst.register "a/out" alias %[[X]] : !regst.data<tensor<8x4xf32>> slots
// CHECK:         regst.register "b/out" alias %[[X]] : !regst.data<tensor<8x4xf32>> at 64 slots
// PROGRAM-LABEL: launch.program @together
// PROGRAM:         launch.actor @a {{.*}} writes [@"a/out"{{.*}}] {
// PROGRAM-NEXT:    }
// PROGRAM:         launch.actor @b {{.*}} writes [@"b/out"{{.*}}] {
// PROGRAM-NEXT:    }
job.job @together placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<8x4xf32>
  %a = op.slice %x from [0, 0] to [4, 4] by [1, 1] : tensor<8x4xf32> -> tensor<4x4xf32>
  %b = op.slice %x from [4, 0] to [8, 4] by [1, 1] : tensor<8x4xf32> -> tensor<4x4xf32>
  %c = op.concat %a, %b axis 1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x8xf32>
  job.output "c", %c : tensor<4x8xf32>
}
