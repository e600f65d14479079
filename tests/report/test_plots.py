from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_rows import grid, make_rows
from matplotlib.figure import Figure

from lts_bench.report.leaderboard import make_board
from lts_bench.report.plots import NAMED, REPLAYED, SOLVED, agent_colour, draw, pareto_front, scatter
from lts_bench.results.schema import Replay

POINTS = st.lists(st.tuples(st.integers(0, 9).map(float), st.integers(0, 9).map(float)))


@given(POINTS)
def test_the_front_is_what_no_point_dominates(points: list[tuple[float, float]]) -> None:
    front = pareto_front(points)
    assert front == sorted(
        (x, y) for x, y in set(points) if not any(a >= x and b >= y and (a, b) != (x, y) for a, b in points)
    )


def test_colours_depend_on_the_name_alone() -> None:
    assert agent_colour("a@1") == agent_colour("a@1") != agent_colour("b@1")


RENDER = """
import hashlib
from made_rows import grid, make_rows
from lts_bench.report.leaderboard import make_board
from lts_bench.report.plots import scatter
files = scatter(make_board(grid(), make_rows({"a": 1.0, "b": 0.5, "_c$": None})))
print({name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())})
"""


def test_two_processes_draw_the_same_bytes() -> None:
    drawn = {
        subprocess.run(
            [sys.executable, "-c", RENDER],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(drawn) == 1


def test_many_agents_are_drawn_and_the_best_are_named() -> None:
    scores = {f"agent{i}": 1.0 + i for i in range(NAMED + 5)}
    svg = scatter(make_board(grid(1, 1), make_rows(scores, 1, 1)))["scatter.svg"].decode()
    # Text is drawn as paths, with a comment that tells it.
    named = [name for name in scores if f"<!-- {name}@1 -->" in svg]
    assert named == [f"agent{i}" for i in range(5, NAMED + 5)]
    assert "<!-- Pareto front -->" in svg


@pytest.mark.parametrize("scores", [{}, {"a": None}])
def test_a_board_without_scores_is_drawn(scores: dict[str, float | None]) -> None:
    assert scatter(make_board(grid(), make_rows(scores)))["scatter.png"].startswith(b"\x89PNG")


def test_the_scatter_tells_attainment_where_all_agents_were_replayed() -> None:
    replay = Replay(offered_requests_per_s=9.0, attainment=0.5, goodput_per_npu=50.0)
    rows, others = make_rows({"a": 1.0}, replay=replay), make_rows({"b": 0.5})
    for board_rows, label in ((rows, REPLAYED), (rows + others, SOLVED)):
        axes = Figure().add_subplot()
        draw(axes, make_board(grid(), board_rows))
        assert axes.get_xlabel() == f"SLO compliance: {label}"
        assert axes.containers[0][0].get_xdata().tolist() == [0.5 if label == REPLAYED else 1.0]
