// RUN: penstock-opt %s -p verify-program --verify-diagnostics --split-input-file

// The lock has to keep jobs apart that exclude each other.

launch.program @unguarded rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  // expected-error@+1 {{verify-program: @System-Main/lock lets jobs 'a' and 'b' use the same bytes at the same time}}
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64>, array<i64>] on <0, cpu:0> stream 4 reads [@"System-Main/send/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}


// -----

// A section has to cover all that uses the bytes.

launch.program @uncovered rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source", @"2"] writes [] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [] writes [@y, @"2", @"3"] {
    launch.feed "y" to @y
  }
  // expected-error@+1 {{verify-program: @b/total/sink may end a section before @b/total/source begins it}}
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  // expected-error@+1 {{verify-program: @System-Main/lock lets jobs 'a' and 'b' use the same bytes at the same time}}
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64: 1>, array<i64: 0>] on <0, cpu:0> stream 4 reads [@"System-Main/send/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  // expected-error@+1 {{verify-program: @System-Main/finished should hear of job 'b' from one that comes after all others of it, got @b/total/sink}}
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}


// -----

launch.program @crossed rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  // expected-error@+2 {{verify-program: section 0 has no source and sink of its own}}
  // expected-error@+1 {{verify-program: section 1 has no source and sink of its own}}
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64: 1>, array<i64: 0>] on <0, cpu:0> stream 4 reads [@"System-Main/send/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> b/total/source", @"System-Main/case -> a/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}


// -----

launch.program @lists rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  // expected-error@+2 {{verify-program: job 'a' has sections [0], but its list is [0, 0]}}
  // expected-error@+1 {{verify-program: job 'b' has sections [1], but its list is []}}
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 0>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64: 1>, array<i64: 0>] on <0, cpu:0> stream 4 reads [@"System-Main/send/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  // expected-error@+1 {{verify-program: @System-Main/finished should hear of job 'a' from one that comes after all others of it, got @b/total/sink}}
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}


// -----

launch.program @around rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  // expected-error@+1 {{verify-program: @System-Main/lock should stand between one each of send_ids, esac and case, got plain, esac, case}}
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64: 1>, array<i64: 0>] on <0, cpu:0> stream 4 reads [@"System-Main/launch/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}


// -----

launch.program @counts rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  // expected-error@+1 {{verify-program: @System-Main/lock, @System-Main/case and @System-Main/esac do not list the same sections}}
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64: 1>, array<i64: 0>, array<i64>] on <0, cpu:0> stream 4 reads [@"System-Main/send/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}


// -----

// expected-error@+1 {{verify-program: jobs are linked by one lock, got 0}}
launch.program @locks rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/send/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}

// -----

// Who hears of the end of jobs does so of all of them.

launch.program @unguarded rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  launch.control @"a/total/sink -> System-Main/esac" slots 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64: 1>, array<i64: 0>] on <0, cpu:0> stream 4 reads [@"System-Main/send/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  // expected-error@+1 {{verify-program: @System-Main/finished should hear of 2 jobs, got 1}}
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}

// -----

// No section ends that nobody has begun.

launch.program @unguarded rank 0 exclusive [["a", "b"]] attributes {jobs = {a = {sections = [#job.section<"total", total>]}, b = {sections = [#job.section<"total", total>]}}} {
  launch.chunk @c0 on <0, host> size 64
  launch.chunk @c1 on <0, host> size 640
  launch.register @x in @c0 at 0 slots 1 : memref<4xf32>
  launch.register @y in @c0 at 0 slots 1 : memref<4xf32>
  launch.control @"0" slots 1
  launch.control @"1" slots 1
  launch.control @"2" slots 1
  launch.control @"3" slots 1
  launch.register @"System-Main/launch/out" in @c1 at 0 slots 2 : memref<i64>
  launch.register @"System-Main/send/out" in @c1 at 128 slots 2 : memref<i64>
  launch.register @"System-Main/lock/out" in @c1 at 256 slots 2 : memref<i64>
  launch.register @"System-Main/esac/out" in @c1 at 384 slots 2 : memref<i64>
  launch.register @"System-Main/finished/out" in @c1 at 512 slots 2 : memref<i64>
  launch.control @"System-Main/case -> a/total/source" slots 1
  launch.control @"System-Main/case -> b/total/source" slots 1
  // expected-error@+1 {{verify-program: control @a/total/sink -> System-Main/esac of the main job is full at the start}}
  launch.control @"a/total/sink -> System-Main/esac" slots 1 initial 1
  launch.control @"b/total/sink -> System-Main/esac" slots 1
  launch.control @"a/total/sink -> System-Main/finished" slots 1
  launch.control @"b/total/sink -> System-Main/finished" slots 1
  launch.actor @"a/total/source" job "a" on <0, cpu:0> stream 0 reads [@"System-Main/case -> a/total/source"] writes [@"0"] {
  }
  launch.actor @"a/x" job "a" on <0, cpu:0> stream 1 reads [@"0"] writes [@x, @"1"] {
    launch.feed "x" to @x
  }
  launch.actor @"a/total/sink" job "a" on <0, cpu:0> stream 0 reads [@"1"] writes [@"a/total/sink -> System-Main/esac", @"a/total/sink -> System-Main/finished"] {
  }
  launch.actor @"b/total/source" job "b" on <0, cpu:0> stream 0 reads [@"System-Main/case -> b/total/source"] writes [@"2"] {
  }
  launch.actor @"b/y" job "b" on <0, cpu:0> stream 1 reads [@"2"] writes [@y, @"3"] {
    launch.feed "y" to @y
  }
  launch.actor @"b/total/sink" job "b" on <0, cpu:0> stream 0 reads [@"3"] writes [@"b/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/finished"] {
  }
  launch.actor @"System-Main/launch" job "System-Main" on <0, cpu:0> stream 2 reads [] writes [@"System-Main/launch/out"] {
    launch.feed "System-Launch" to @"System-Main/launch/out"
  }
  launch.actor @"System-Main/send" job "System-Main" kind "send_ids" lists [array<i64: 0>, array<i64: 1>] on <0, cpu:0> stream 3 reads [@"System-Main/launch/out"] writes [@"System-Main/send/out"] {
  }
  launch.actor @"System-Main/lock" job "System-Main" kind "lock" lists [array<i64: 1>, array<i64: 0>] on <0, cpu:0> stream 4 reads [@"System-Main/send/out", @"System-Main/esac/out"] writes [@"System-Main/lock/out"] {
  }
  launch.actor @"System-Main/case" job "System-Main" kind "case" on <0, cpu:0> stream 5 reads [@"System-Main/lock/out"] writes [@"System-Main/case -> a/total/source", @"System-Main/case -> b/total/source"] {
  }
  launch.actor @"System-Main/esac" job "System-Main" kind "esac" on <0, cpu:0> stream 6 reads [@"a/total/sink -> System-Main/esac", @"b/total/sink -> System-Main/esac"] writes [@"System-Main/esac/out"] {
  }
  launch.actor @"System-Main/finished" job "System-Main" kind "esac" on <0, cpu:0> stream 7 reads [@"a/total/sink -> System-Main/finished", @"b/total/sink -> System-Main/finished"] writes [@"System-Main/finished/out"] {
  }
  launch.actor @"System-Main/notify" job "System-Main" on <0, cpu:0> stream 8 reads [@"System-Main/finished/out"] writes [] {
    launch.fetch "System-Finished" from @"System-Main/finished/out"
  }
}
