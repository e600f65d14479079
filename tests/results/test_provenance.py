from __future__ import annotations

import os
import platform
from datetime import UTC, datetime

import lts_bench
from lts_bench.results.provenance import provenance


def test_provenance_says_where_a_cell_ran() -> None:
    found = provenance("7", "d" * 64)
    assert (found.cost_model, found.agent_digest, found.package) == ("7", "d" * 64, lts_bench.__version__)
    assert (found.python, found.cores) == (platform.python_version(), os.cpu_count())
    assert abs((datetime.now(UTC) - datetime.fromisoformat(found.utc)).total_seconds()) < 60
    assert len(found.lock_digest) == 64
    assert found.cpu
