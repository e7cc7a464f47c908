// A file brings alternatives of its own.
// RUN: penstock-opt %s --load %S/../Inputs/kernels.py -p 'launch-select-kernels{refusals=true}' | filecheck %s
// RUN: python %S/../Inputs/plant_times.py %s %t.db --load %S/../Inputs/kernels.py 'swish: acme-swish' 12 'swish: rules' 9
// RUN: penstock-opt %s --load %S/../Inputs/kernels.py -p 'launch-select-kernels{vector-bytes=64 database="%t.db"}' | filecheck %s --check-prefix=MEASURED
// RUN: cp %S/../Inputs/kernels.py %t.py
// RUN: not penstock-opt --load %S/../Inputs/kernels.py --load %t.py %s 2>&1 | filecheck %s --check-prefix=TWICE

// TWICE: penstock-opt: error: cannot load {{.*}}.py:{{[0-9]+}}: PluginError: there already is a kernel 'acme-swish' ({{.*}}kernels.py:{{[0-9]+}})

// What has a higher priority takes the place of the rules, and may change the kernel.
// CHECK-LABEL: launch.kernel @swish
// CHECK-SAME:  acme.note = "swished"
// CHECK-SAME:  selected = "acme-swish: priority 10, rules has 0"
//
// A measurement stands above it.
// MEASURED-LABEL: launch.kernel @swish
// MEASURED-NOT:   acme.note
// MEASURED-SAME:  selected = "rules: 9 ns measured, acme-swish 12 ns"
launch.kernel @swish target "cpu" (%x: memref<4xf32>) attributes {cost = {bytes = 1, flops = 2, op = "acme.swish"}} {
}

// It may refuse a kernel in its own words, and is asked only for the ops that it is for.
// CHECK-LABEL: launch.kernel @one
// CHECK-SAME:  selected = "rules: nothing else is offered"
// CHECK-SAME:  refused = ["acme-broken: is for acme.broken", "acme-checked: is for acme.checked", "acme-greedy: is for acme.greedy", "acme-modelled: is for acme.modelled", "acme-swish: one element is not worth it",
launch.kernel @one target "cpu" (%x: memref<1xf32>) attributes {cost = {bytes = 1, flops = 2, op = "acme.swish"}} {
}

// Of one priority, what is modelled faster is taken, also of the variants of one.
// CHECK-LABEL: launch.kernel @modelled
// CHECK-SAME:  acme.note = "fast"
// CHECK-SAME:  selected = "acme-modelled fast: 80 ns modelled, acme-modelled slow 90 ns"
launch.kernel @modelled target "cpu" (%x: memref<4xf32>) attributes {cost = {bytes = 1, flops = 2, op = "acme.modelled"}} {
}

// It is for the dtypes that it says.
// CHECK-LABEL: launch.kernel @doubles
// CHECK-SAME:  "acme-modelled: is for f32"
launch.kernel @doubles target "cpu" (%x: memref<4xf64>) attributes {cost = {bytes = 1, flops = 2, op = "acme.modelled"}} {
}

// An actor whose kernel has got a source can fail from then on, and says so; others do not.
// CHECK-LABEL: launch.program @failing
// CHECK:         launch.kernel @checked {{.*}} source = "int kernel(void);"
// CHECK:         launch.actor @a on <0, cpu:0> stream 0 can_fail reads [] writes [@x] {
// CHECK:         launch.actor @b on <0, cpu:0> stream 0 reads [@x] writes [@y] {
launch.program @failing rank 0 {
  launch.chunk @c0 on <0, host> size 128
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 64 slots 1 : memref<4xf32>
  launch.kernel @checked target "cpu" (%x: memref<4xf32>) attributes {cost = {bytes = 1, flops = 2, op = "acme.checked"}} {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%x : memref<4xf32>)
  }
  launch.kernel @plain target "cpu" (%x: memref<4xf32>) attributes {cost = {bytes = 1, flops = 2, op = "acme.plain"}} {
    %z = arith.constant 0.0 : f32
    linalg.fill ins(%z : f32) outs(%x : memref<4xf32>)
  }
  launch.actor @a on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.call @checked [@x]
  }
  launch.actor @b on <0, cpu:0> stream 0 reads [@x] writes [@y] {
    launch.call @plain [@y]
  }
}
