from __future__ import annotations

import os
import subprocess
import sys

import pytest
from made_rows import grid, make_cells, make_rows, real_grid

from lts_bench.report.leaderboard import make_board
from lts_bench.report.plots import REPLAYED, SOLVED, plots, scatter_figure
from lts_bench.report.style import HOUSE, NAMED, agent_colour, agent_dashes, agent_marker
from lts_bench.results.schema import Replay

CURVES = ("anytime_evaluations.svg", "anytime_seconds.svg", "profiles.svg", "targets.svg")


def test_colours_depend_on_the_name_alone() -> None:
    assert agent_colour("a@1") == agent_colour("a@1") != agent_colour("b@1")


def test_no_two_house_agents_look_alike() -> None:
    looks = {(agent_colour(f"{name}@1"), agent_marker(f"{name}@1"), str(agent_dashes(f"{name}@1"))) for name in HOUSE}
    assert len({colour for colour, _, _ in looks}) == len(HOUSE)
    # Also in grey: no marker and dashes twice.
    assert len({(marker, dashes) for _, marker, dashes in looks}) == len(HOUSE)


RENDER = """
import hashlib
from made_rows import make_cells, real_grid
from lts_bench.report.board import board_texts
from lts_bench.report.leaderboard import make_board
from lts_bench.report.plots import plots
board = make_board(real_grid(), make_cells(real_grid(), {"a": 1.0, "b": 0.5, "_c$": None}))
files = board_texts(board) | plots(board)
print({name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())})
"""


def test_two_processes_draw_and_write_the_same_bytes_whatever_their_hash_seed_locale_and_time_zone() -> None:
    drawn = {
        subprocess.run(
            [sys.executable, "-c", RENDER],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "PYTHONHASHSEED": seed,
                "TZ": zone,
                "LC_ALL": locale,
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, zone, locale in (("1", "UTC", "C"), ("2", "Asia/Tokyo", "C.UTF-8"))
    }
    assert len(drawn) == 1


@pytest.fixture(scope="module")
def many() -> tuple[list[str], dict[str, str]]:
    """Names of sixty agents, from the worst to the best, and the figures of their board."""
    scores: dict[str, float | None] = {f"agent{i:02}": 0.3 + 0.01 * i for i in range(59)} | {"random": 0.1}
    files = plots(make_board(grid(1, 1), make_rows(scores, 1, 1)))
    return sorted(scores, key=lambda name: scores[name] or 0), {
        name: data.decode(errors="replace") for name, data in files.items()
    }


@pytest.mark.parametrize("figure", ["scatter.svg", *CURVES])
def test_of_many_agents_the_best_and_the_baselines_are_named(
    many: tuple[list[str], dict[str, str]], figure: str
) -> None:
    names, files = many
    # Text is drawn as paths, with a comment that tells it.
    named = [name for name in names if f"<!-- {name}@1 -->" in files[figure]]
    assert named == [names[0], *names[-NAMED:]]


def test_the_heat_map_has_all_agents_and_the_scatter_a_front(many: tuple[list[str], dict[str, str]]) -> None:
    names, files = many
    assert all(f"<!-- {name}@1 -->" in files["tasks.svg"] for name in names)
    assert "<!-- Pareto front -->" in files["scatter.svg"]


def test_regret_is_drawn_by_what_tasks_are_like() -> None:
    files = plots(make_board(real_grid(), make_cells(real_grid(), {"a": 1.0})))
    text = files["slices.svg"].decode()
    assert all(f"<!-- {name} (number of tasks) -->" in text for name in ("model size", "NPUs", "topology", "SLO"))


@pytest.mark.parametrize("scores", [{}, {"a": None}])
def test_a_board_without_scores_is_drawn(scores: dict[str, float | None]) -> None:
    assert plots(make_board(grid(), make_rows(scores)))["scatter.png"].startswith(b"\x89PNG")


def test_the_scatter_tells_attainment_where_all_agents_were_replayed() -> None:
    replay = Replay(offered_requests_per_s=9.0, attainment=0.5, goodput_per_npu=50.0)
    rows, others = make_rows({"a": 1.0}, replay=replay), make_rows({"b": 0.5})
    for board_rows, label, x in ((rows, REPLAYED, 0.5), (rows + others, SOLVED, 1.0)):
        (axes,) = scatter_figure(make_board(grid(), board_rows)).axes
        assert axes.get_xlabel() == f"SLO compliance: {label}"
        assert axes.containers[0][0].get_xdata().tolist() == [x]
