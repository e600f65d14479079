from __future__ import annotations

import numpy as np
import pytest
from small_spaces import drawn_space

from lts_bench.cost.steady import Round
from lts_bench.cost.vectorised import Sums
from lts_bench.exact.cells import Cell, Place
from lts_bench.exact.factors import Factors, all_scopes, size_of, strides
from lts_bench.exact.plan import Plan


def test_strides_address_every_entry_of_a_table_once() -> None:
    sizes, scope = (1, 3, 16, 4), (1, 2, 3)
    steps = strides(sizes, scope)
    entries = [a * steps[1] + b * steps[2] + c * steps[3] for a in range(3) for b in range(16) for c in range(4)]
    assert entries == list(range(size_of(sizes, scope)))


@pytest.mark.parametrize("seed", range(10))
def test_the_sums_of_a_cell_are_those_of_the_evaluation(seed: int) -> None:
    space, cost = drawn_space(seed, most=10**9)
    program = cost.program
    streams = frozenset(at for at, name in enumerate(space.names) if name.endswith(".stream"))
    rng = np.random.default_rng(seed)
    vectors = space.sample(20, rng)
    sums = Sums.of(program, vectors)
    for row, vector in enumerate(vectors):
        degrees, rung = int(vector[0]), int(rng.integers(len(program.ladder) - 1))
        axes = int(program.two_axes[degrees])
        batches = map(int, program.ladder[rung : rung + 2])
        plan, cell = Plan.of(Factors.of(cost, axes + 1), streams), Cell(program, Place(degrees, rung, *batches))
        if cell.mixes and cell.pipelined:
            continue
        choices = vector if axes else program.letters[np.arange(len(vector)), np.append(0, vector[1:])]
        own = plan.total(cell.table(plan), np.append(0, choices[1:]).astype(np.uint8))[None, : cell.compared]
        ends = cell.ends(np.hstack((own, np.zeros((1, 2 * cell.paths)))), sums.buffers[row : row + 1])
        for at, found in ((rung, ends.low), (rung + 1, ends.high)):
            for name in Round._fields:
                expected = getattr(sums.rounds, name)[row, at]
                assert getattr(found, name)[0] == pytest.approx(expected, rel=1e-12), name
        assert ends.replica.capacity[0] == sums.replica.capacity[row]


def test_parts_of_a_graph_hold_every_table_once() -> None:
    space, cost = drawn_space(5)
    scopes = all_scopes(cost.program)
    whole = Factors.of(cost, 1)
    halves = [Factors.of(cost, 1, scopes[:3]), Factors.of(cost, 1, scopes[3:])]
    assert whole.entries == sum(half.entries for half in halves)
    assert len(whole.times.entry) == sum(len(half.times.entry) for half in halves)
    assert len(space.names) == len(whole.sizes)
