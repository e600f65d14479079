from __future__ import annotations

from pathlib import Path

import pytest
from small_task import random_agent

from lts_bench.cost.compiled import MACHINE_CODE, cache_folder
from lts_bench.harness.nursery import Nursery
from lts_bench.registry import describe_agent


@pytest.mark.parametrize("track", ["search", "model_based"])
def test_agents_that_run_the_cost_model_find_it_compiled(tmp_path: Path, track: str) -> None:
    ref = random_agent(tmp_path)
    path = Path(ref.partition(":")[0])
    path.write_text(path.read_text().replace('"search"', f'"{track}"'))
    nursery = Nursery(describe_agent(ref))
    try:
        environment = Path(f"/proc/{nursery.pid}/environ").read_bytes().split(b"\0")
    finally:
        nursery.close()
    told = f"{MACHINE_CODE}={cache_folder()}".encode() in environment
    assert told == (track == "model_based")
