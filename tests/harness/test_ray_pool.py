"""Runs on a Ray cluster of several nodes on this machine, one of which is killed while cells run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from made_rows import COST, PROVENANCE
from small_task import agent_file

from lts_bench.harness.execute import WorkerLost, finished, open_pool
from lts_bench.harness.session import Options, run_suite
from lts_bench.results.schema import Row, encode_row
from lts_bench.results.store import read_store
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Workload

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
SPEC = TaskSpec("llama-3.1-8b/h100x4/tests", "llama-3.1-8b", "h100x4", Workload(512, 128))
SLOW = """
    import time
    print("searching")
    for _ in range(5):
        problem.evaluate(problem.space.sample(10, rng))
        time.sleep(0.1)
"""


def test_without_a_cluster_there_is_a_line_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(InputError, match="no Ray cluster runs here"), open_pool("ray", 1):
        pass


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without processors and two nodes with one each."""
    from ray.cluster_utils import Cluster

    before = {name: os.environ.get(name) for name in ("PYTHONPATH", "RAY_ADDRESS", "RAY_USAGE_STATS_ENABLED")}
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    sizes = {"object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **sizes})
    for _ in range(2):
        cluster.add_node(num_cpus=1, object_store_memory=80 << 20)
    os.environ["RAY_ADDRESS"] = cluster.address
    yield cluster
    cluster.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


def compared(rows: tuple[Row, ...]) -> list[bytes]:
    """Return the bytes of rows without what may differ between runs."""
    plain = [
        msgspec.structs.replace(
            row, cost=COST, provenance=PROVENANCE,
            trace=tuple(msgspec.structs.replace(point, seconds=0.0) for point in row.trace),
        )
        for row in rows
    ]  # fmt: skip
    return [encode_row(row) for row in plain]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray's workers look for modules in the driver's directory first: it must not be that of the source files."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("elsewhere")
def test_a_killed_node_loses_nothing_and_doubles_nothing(cluster: Any, tmp_path: Path) -> None:
    suite = Suite("mini", "", (agent_file(tmp_path, SLOW),), 6, "e50", (SPEC,))
    doomed = sorted(cluster.worker_nodes, key=str)[0]
    finishes: list[str] = []

    def kill_one(done: int, total: int, last: str) -> None:
        if last.startswith("mine@1"):
            finishes.append(last)
        if len(finishes) == 2:
            finishes.append("a node is killed")
            cluster.remove_node(doomed, allow_graceful=False)

    session = run_suite(suite, Options(out=tmp_path / "ray", executor="ray"), kill_one)
    assert finishes.index("a node is killed") == 2
    assert len(finishes) == 7
    local = run_suite(suite, Options(out=tmp_path / "local"), lambda *told: None)
    assert compared(session.rows) == compared(local.rows)
    assert compared(tuple(read_store([tmp_path / "ray"]).rows.values())) == sorted(
        compared(local.rows), key=lambda data: msgspec.json.decode(data)["run_id"]
    )
    assert {path.read_text() for path in (tmp_path / "ray" / "mini" / "logs").iterdir()} == {"searching\n"}


def fail(how: str) -> None:
    if how == "wrong":
        raise InputError("is wrong", field="how")
    os._exit(3)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(("how", "error"), [("wrong", InputError), ("die", WorkerLost)])
def test_errors_are_those_of_the_local_executor(
    cluster: Any, how: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lts_bench.harness.ray_pool.RETRIES", 0)
    with open_pool("ray", 1) as pool, pytest.raises(error):
        list(finished(pool, fail, [(how,)]))
