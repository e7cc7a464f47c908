// RUN: penstock-opt %s --allow-unregistered-dialect | penstock-opt --allow-unregistered-dialect | filecheck %s
// RUN: penstock-opt %s --allow-unregistered-dialect --print-op-generic | penstock-opt --allow-unregistered-dialect | filecheck %s

// The ops of a main job name jobs and sections by their numbers; a lock may be held again.

%j, %d = "test.op"() : () -> (tensor<i64>, tensor<i64>)

// CHECK: %[[S:.+]] = job.wait_and_send_ids %{{.+}} jobs ["a", "b"] lists [array<i64: 0, 1>, array<i64: 2>]
%s = job.wait_and_send_ids %j jobs ["a", "b"] lists [array<i64: 0, 1>, array<i64: 2>]
// CHECK: %[[G:.+]] = job.reentrant_lock %[[S]], %{{.+}} sections ["a/total", "a/input/x", "b/total"] lists [array<i64: 2>, array<i64>, array<i64: 0>]
%g = job.reentrant_lock %s, %d sections ["a/total", "a/input/x", "b/total"] lists [array<i64: 2>, array<i64>, array<i64: 0>]
// CHECK: job.case %[[G]] ["a/total", "a/input/x", "b/total"]
job.case %g ["a/total", "a/input/x", "b/total"]
// CHECK: %[[N:.+]] = job.esac ["a", "b"]
%n = job.esac ["a", "b"]
// CHECK: job.callback_notify "System-Finished", %[[N]]
job.callback_notify "System-Finished", %n
