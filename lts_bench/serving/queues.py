"""First-come, first-served queues of ranks, and how a router chooses among them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled
from lts_bench.serving.state import NONE, Record, Rules

Records = NDArray[np.void]


@compiled
def push_back(requests: Records, queue: Record, request: int) -> None:
    """A request arrives at a ``RANK``."""
    requests[request].behind = NONE
    if queue.head == NONE:
        queue.head = request
    else:
        requests[queue.tail].behind = request
    queue.tail = request
    queue.waiting += 1


@compiled
def push_front(requests: Records, queue: Record, request: int) -> None:
    """A sequence that made way is the next of its ``RANK`` to be served."""
    requests[request].behind = queue.head
    if queue.head == NONE:
        queue.tail = request
    queue.head = request
    queue.waiting += 1


@compiled
def pop(requests: Records, queue: Record) -> None:
    """The head of the queue of a ``RANK`` leaves it."""
    queue.head = requests[queue.head].behind
    queue.waiting -= 1


@compiled
def in_turn(rules: Rules, turn: int) -> int:
    """The rank of the ``turn``-th request: replicas in turn, then their ranks."""
    return (turn % rules.replicas) * rules.dp + turn // rules.replicas % rules.dp


@compiled
def least_loaded(ranks: Records) -> int:
    """The rank with the fewest requests, of equals the first."""
    best = 0
    for rank in range(1, len(ranks)):
        if ranks[rank].waiting + ranks[rank].serving < ranks[best].waiting + ranks[best].serving:
            best = rank
    return best
