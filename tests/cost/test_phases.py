"""What a step holds."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.phases import Phases
from lts_bench.specs.workload import Workload


def test_phases_by_hand() -> None:
    phases = Phases(Workload(100, 20), np.array([1, 4]), mixed=True, prompts=3)
    assert len(phases) == 6 and phases.decode == slice(2, 4)
    assert phases.prefilled.tolist() == [3, 3, 0, 0, 1, 1]
    assert phases.decoded.tolist() == [0, 0, 1, 4, 1, 4]
    assert phases.sequences.tolist() == [3, 3, 1, 4, 2, 5]
    assert phases.tokens.tolist() == [300, 300, 1, 4, 101, 104]
    # Two ranks: both prefill, one does, then both decode, a prompt on one of them.
    assert phases.tokens_of(np.array([[2.0]]))[0].tolist() == [600, 300, 2, 8, 102, 108]
