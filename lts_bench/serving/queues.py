"""First-come, first-served queues of ranks, and how a router chooses among them."""

from __future__ import annotations

from lts_bench.cost.compiled import compiled
from lts_bench.serving.state import NONE, Simulation


@compiled
def push_back(sim: Simulation, rank: int, request: int) -> None:
    """A request arrives."""
    queue = sim.ranks[rank]
    sim.requests[request].behind = NONE
    if queue.head == NONE:
        queue.head = request
    else:
        sim.requests[queue.tail].behind = request
    queue.tail = request
    queue.waiting += 1


@compiled
def push_front(sim: Simulation, rank: int, request: int) -> None:
    """A sequence that made way is the next to be served."""
    queue = sim.ranks[rank]
    sim.requests[request].behind = queue.head
    if queue.head == NONE:
        queue.tail = request
    queue.head = request
    queue.waiting += 1


@compiled
def pop(sim: Simulation, rank: int) -> None:
    """The head of a queue leaves it."""
    queue = sim.ranks[rank]
    queue.head = sim.requests[queue.head].behind
    queue.waiting -= 1


@compiled
def route(sim: Simulation, turn: int) -> int:
    """The rank of the ``turn``-th request: replicas in turn and then their ranks, or where the fewest requests are."""
    rules, ranks = sim.rules, sim.ranks
    if not rules.least_loaded:
        return (turn % rules.replicas) * rules.dp + turn // rules.replicas % rules.dp
    best = 0
    for rank in range(1, len(ranks)):
        if ranks[rank].waiting + ranks[rank].serving < ranks[best].waiting + ranks[best].serving:
            best = rank
    return best
