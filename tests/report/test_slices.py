from __future__ import annotations

import msgspec
import pytest
from made_rows import make_cells, real_grid

from lts_bench.report.leaderboard import make_board
from lts_bench.report.slices import groups, network, slice_scores
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.suite import load_suite
from lts_bench.specs.taskspec import TaskSpec


def test_groups_of_the_smallest_suite() -> None:
    # Chats of 8 B on 8 switched devices, of 47 B on 16 over two nodes, of 70 B on a torus of 64.
    dense, torus, routed = "llama-3.1-8b/h100x8/chat", "llama-3.1-70b/tpu-v5e-8x8/chat", "mixtral-8x7b/a100x16/chat"
    assert groups(load_suite("smoke").tasks) == {
        "model size": {"below 30 B": [dense], "30 B to 200 B": [torus, routed]},
        "NPUs": {"up to 64": [torus, dense, routed]},
        "topology": {"switch": [dense], "switch, rail": [routed], "torus": [torus]},
        "SLO": {"tight": [dense], "loose": [torus, routed]},
    }


@pytest.mark.parametrize("suite", ["core", "large-npu", "topology"])
def test_every_task_is_in_one_group_of_each_slice(suite: str) -> None:
    specs = load_suite(suite).tasks
    for members in groups(specs).values():
        assert sorted(name for tasks in members.values() for name in tasks) == sorted(spec.name for spec in specs)


def test_the_network_between_domains_counts_only_where_it_is_used() -> None:
    assert [network(load_cluster(name)) for name in ("h100x8", "h100x16")] == ["switch", "switch, rail"]


def test_tasks_whose_model_is_gone_are_left_out() -> None:
    spec = load_suite("smoke").tasks[0]
    gone = msgspec.structs.replace(spec, name="gone.json/h100x8/chat", model="gone.json")
    assert "model size" in groups((gone,))
    assert groups((gone,))["model size"] == {}
    assert isinstance(gone, TaskSpec)


def test_a_group_has_the_mean_of_its_tasks() -> None:
    rows = make_cells(real_grid(), {"a": 0.5}) + make_cells(real_grid(), {"part": 0.5})[1:]
    lines = slice_scores(make_board(real_grid(), rows))
    assert ("SLO", "tight", 1, "a@1", 0.5) in lines
    assert {agent for *_, agent, _ in lines} == {"a@1"}
