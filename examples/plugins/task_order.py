"""An order of tasks: depth first, so that a value is read soon after it is made."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("task-order", "depth-first")
def depth_first(request):
    """Each task as late as the tasks that need it allow."""
    problem, order, done = request.problem, [], set()
    ends = [task for task in problem.source if not problem.after[task]]
    left = ends[::-1]
    while left:
        task = left[-1]
        waiting = [other for other in problem.before[task] if other not in done]
        if waiting:
            left.append(waiting[0])
            continue
        left.pop()
        if task not in done:
            done.add(task)
            order.append(task)
    return order
