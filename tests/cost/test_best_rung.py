"""The compiled best batch against NumPy's, which computes the rate of every rung."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest

from lts_bench.cost.best_batch import best_points
from lts_bench.cost.best_rung import Rounds, best_point
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.steady import NO_LIMIT, Replica, Round, Rules

LADDER = np.array([1.0, 2.0, 3.0, 4.0, 8.0, 16.0])


@numba.njit(error_model="numpy")
def compiled_best(replica: Any, rules: Any, batches: Any, rounds: Any) -> Any:
    filled = np.uint64(rounds.shape[1])
    return best_point(replica, rules, batches, Rounds(rounds[0], rounds[1], rounds[2], rounds[3]), filled)


def both(replica: Replica, rules: Rules, rounds: np.ndarray) -> list[tuple[float, ...]]:
    """(rate, b, td, w, s̄, T) of the best point: compiled, and from NumPy."""
    padded = np.pad(rounds, ((0, 0), (FIRST_RUNG, 0)))
    batches = np.pad(LADDER, (FIRST_RUNG, 0), constant_values=np.inf)
    rate, size, at = compiled_best(replica, rules, batches, padded)
    found, batch, there = best_points(Replica(*np.array(replica)[:, None]), rules, LADDER, Round(*rounds[:, None]))
    return [(rate, size, *at), (float(found[0]), float(batch[0]), *(float(each[0]) for each in there))]


def test_of_equal_rates_the_smallest_batch_is_best() -> None:
    free = Rules(NO_LIMIT, NO_LIMIT, NO_LIMIT, 0.9, 2.3, False, False)
    zeros = np.zeros_like(LADDER)
    # b/td is 1,024 for all b, exactly; then for those from 3 on.
    for decode, smallest in ((LADDER / 1024, 1.0), (np.maximum(LADDER, 3) / 1024, 3.0)):
        one, other = both(Replica(NO_LIMIT, 1.0, 1.0), free, np.stack([decode, zeros + 1, zeros, zeros]))
        assert one == other and one[:2] == (1024.0, smallest)


@pytest.mark.parametrize("pp", [1.0, 2.0])
def test_the_same_bits_as_numpy(pp: float) -> None:
    rng, feasible, between = np.random.default_rng(5), 0, 0
    for _ in range(2_000):
        decode = 0.01 + np.cumsum(rng.exponential(0.004, len(LADDER)))
        service, prefill = rng.uniform(0.01, 0.1), rng.uniform(0.1, 0.4)
        rounds = np.stack(
            [decode, LADDER * rng.uniform(0.001, 0.1), *np.ones((2, len(LADDER))) * [[service], [prefill]]]
        )
        limits = rng.uniform(0.3, 2), rng.uniform(0.02, 0.1)
        rules = Rules(NO_LIMIT, *limits, 0.9, 2.3, bool(rng.integers(2)), False)
        one, other = both(Replica(float(rng.integers(1, 20)), pp, 2.0), rules, rounds)
        if other[0] > 0:
            assert one == other
            feasible += 1
            between += other[1] not in LADDER
        assert (one[0] > 0) == (other[0] > 0)
    assert feasible > 500 and between > 50
