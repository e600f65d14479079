from __future__ import annotations

import numpy as np
import pytest
from small_spaces import all_vectors, drawn_space

from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.vectorised import Sums
from lts_bench.exact.floors import Floors, rung_bounds


def streams_of(names: tuple[str, ...]) -> frozenset[int]:
    return frozenset(at for at, name in enumerate(names) if name.endswith(".stream"))


@pytest.mark.parametrize("seed", range(12))
def test_no_strategy_is_below_the_floors_or_above_the_bounds(seed: int) -> None:
    space, cost = drawn_space(seed, most=10**9)
    program = cost.program
    floors = Floors.of(cost, streams_of(space.names))
    vectors = space.sample(3000, np.random.default_rng(seed))
    sums, degrees = Sums.of(program, vectors), vectors[:, 0]
    phases = floors.seconds.shape[1]
    own = program.pp[degrees, None] * program.overhead.ravel()[:phases]
    assert (sums.total[:, :phases] >= (floors.seconds[degrees] + floors.sends[degrees] + own) * (1 - 1e-12)).all()
    assert (sums.buffers >= floors.buffers[degrees]).all()
    mean = floors.held[degrees] / program.pp[degrees, None]
    assert (sums.stage_bytes.max(axis=1)[:, :3] >= mean * (1 - 1e-12)).all()
    bounds = rung_bounds(program, floors, 0.0)
    raw = cost.raw(vectors)
    feasible = np.flatnonzero(raw[:, 1] > 0)
    rungs = np.minimum(np.searchsorted(program.ladder, raw[feasible, 9], side="right") - 1, bounds.shape[1] - 1)
    assert (raw[feasible, 0] <= bounds[degrees[feasible], rungs] * (1 + 1e-12)).all()


def test_a_floor_is_what_the_best_strategy_for_a_phase_takes() -> None:
    space, cost = drawn_space(3, most=400)
    vectors = all_vectors(space)
    whole = vectors[(space.degrees[vectors[:, 0], 1] == 1)]
    floors, total = Floors.of(cost, streams_of(space.names)), Sums.of(cost.program, whole).total
    for degrees in np.unique(whole[:, 0]):
        least = total[whole[:, 0] == degrees].min(axis=0)
        own = cost.program.overhead.ravel()[: floors.seconds.shape[1]]
        assert (floors.seconds[degrees] + own <= least[: len(own)] * (1 + 1e-12)).all()
        assert least[FIRST_RUNG] < 10 * (floors.seconds[degrees] + own)[FIRST_RUNG]
