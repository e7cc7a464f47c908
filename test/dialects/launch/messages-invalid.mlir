// RUN: penstock-opt %s --verify-diagnostics --split-input-file

launch.program @self rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    launch.receive @x from 0 tag 3
  }
  launch.actor @out on <1, cpu:0> stream 0 reads [@x] writes [] {
    // expected-error@+1 {{@out has a message of rank 1, not of another}}
    launch.send @x to 1 tag 3
  }
}

// -----

launch.program @negative rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{@in has a message of rank -1, not of another}}
    launch.receive @x from -1 tag 3
  }
}

// -----

launch.program @tag rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{a tag is not negative, got -1}}
    launch.receive @x from 0 tag -1
  }
}

// -----

launch.program @several rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{@in has a message, so it takes no other step}}
    launch.receive @x from 0 tag 0
    launch.receive @x from 0 tag 1
  }
}

// -----

launch.program @loop rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    launch.loop 3 {
      // expected-error@+1 {{launch.receive is no step of a loop or condition}}
      launch.receive @x from 0 tag 0
    }
  }
}

// -----

launch.program @elsewhere rank 1 {
  launch.chunk @c on <0, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{@in works on rank 1 with @x, which lies on rank 0}}
    launch.receive @x from 0 tag 0
  }
}

// -----

launch.program @stranger rank 2 {
  launch.chunk @c on <2, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <2, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{@in is of rank 2, but its collective of ranks 0, 1}}
    launch.collective "broadcast" by "ring" over [0, 1] tag 0 [] into [@x]
  }
}

// -----

launch.program @sizes rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.variable @w in @c at 64 init <zeros> : memref<4xf32>
  launch.register @x in @c at 0 slots 2 : memref<6xf32>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{all_gather of 2 ranks makes 4 elements to 8, got 6}}
    launch.collective "all_gather" by "mpi" over [0, 1] tag 0 [@w] into [@x]
  }
}

// -----

launch.program @both rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{@in has a message, so it takes no other step}}
    launch.collective "broadcast" by "ring" over [1, 0] tag 0 [] into [@x]
    launch.receive @x from 1 tag 1
  }
}

// -----

launch.program @negative_tag rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    // expected-error@+1 {{a tag is not negative, got -4}}
    launch.collective "broadcast" by "ring" over [1, 0] tag -4 [] into [@x]
  }
}

// -----

launch.program @in_loop rank 0 {
  launch.chunk @c on <0, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.actor @in on <0, cpu:0> stream 0 reads [] writes [@x] {
    launch.loop 3 {
      // expected-error@+1 {{launch.collective is no step of a loop or condition}}
      launch.collective "broadcast" by "ring" over [1, 0] tag 0 [] into [@x]
    }
  }
}

// -----

launch.program @times rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.control @y slots 1
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    launch.receive @x from 0 tag 0 times 4
  }
  // expected-error@+1 {{@out has a message 3 times in an iteration, which does not suit the rates of its program}}
  launch.actor @out on <1, cpu:0> stream 0 reads [@x] writes [] {
    launch.send @x to 0 tag 1 times 3
  }
}

// -----

launch.program @part rank 1 {
  launch.chunk @c on <1, network> size 128
  launch.register @x in @c at 0 slots 2 : memref<4xf32>
  launch.control @y slots 1
  // expected-error@+1 {{@in has a message 3 times in an iteration, which does not suit the rates of its program}}
  launch.actor @in on <1, cpu:0> stream 0 reads [] writes [@x] {
    launch.receive @x from 0 tag 0 times 3
  }
  launch.actor @every on <1, cpu:0> stream 0 reads [@x] writes [@y] every [@y = 2] {
  }
}
