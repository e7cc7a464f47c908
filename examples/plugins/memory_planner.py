"""A memory planner: the buffer with the most bytes times steps goes lowest."""

from penstock.plugins import register

PENSTOCK_INTERFACE = "0.2"


@register("memory-planner", "area-first")
def area_first(problem, budget):
    """Largest bytes times steps first, each at the lowest offset that is free."""
    lives, offsets = problem.lifetimes, {}
    further = {pair for i, j in problem.further_conflicts for pair in ((i, j), (j, i))}
    area = [(life.last - life.first + 1) * life.size for life in lives]
    for i in sorted(range(len(lives)), key=lambda i: -area[i]):
        rivals = sorted(
            (offsets[j], offsets[j] + lives[j].size)
            for j in offsets
            if (lives[j].first <= lives[i].last and lives[i].first <= lives[j].last)
            or (i, j) in further
        )
        at = 0
        for start, end in rivals:
            if at + lives[i].size <= start:
                break
            at = max(at, -(-end // problem.alignment) * problem.alignment)
        offsets[i] = at
    return [offsets[i] for i in range(len(lives))]
