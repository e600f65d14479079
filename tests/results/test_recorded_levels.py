from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from made_rows import make_cells, real_grid

from lts_bench.report.leaderboard import make_board
from lts_bench.report.site.facts import level
from lts_bench.results.checks import Record
from lts_bench.results.levels import (
    LEVELS_FILE,
    Level,
    LevelName,
    labelled,
    reached,
    read_levels,
    record_levels,
    rows_digest,
)
from lts_bench.results.schema import Row
from lts_bench.results.store import write_grid, write_row
from lts_bench.specs.failure import InputError

GRID = real_grid()
ROWS = make_cells(GRID, {"a": 0.5, "b": 0.7})
A, B = sorted({row.label for row in ROWS})


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for row in ROWS:
        write_row(folder, row)
    write_grid(folder, GRID)
    return folder


def levels(stored: Path, *failures: Record, ran: tuple[LevelName, ...] = ()) -> dict[str, str]:
    return {each.agent: each.level for each in reached([stored], failures, ran)}


def failure(level: str, file: str, field: str = "") -> Record:
    return Record(level, "some", False, file, field, "is wrong")


def test_a_level_is_reached_where_nothing_fails_up_to_it(stored: Path) -> None:
    row = labelled(ROWS, A)[0]
    file = str(stored / f"{row.run_id}.json")
    both: tuple[LevelName, ...] = ("L2", "L3")
    assert levels(stored) == {A: "L1", B: "L1"}
    assert levels(stored, ran=both) == {A: "L3", B: "L3"}
    assert levels(stored, failure("L1", file), ran=both) == {A: "L0", B: "L3"}
    assert levels(stored, failure("L0", GRID.name, A)) == {B: "L1"}
    assert levels(stored, failure("L2", f"{A} {row.task} seed 1", "regret"), ran=both) == {A: "L1", B: "L3"}
    assert levels(stored, failure("audit", A), ran=both) == {A: "L2", B: "L3"}
    # A certificate is everybody's.
    assert levels(stored, failure("L1", f"certificate of {row.task} instance 1")) == {A: "L0", B: "L0"}


def test_a_badge_holds_for_the_rows_that_were_verified(stored: Path, tmp_path: Path) -> None:
    record_levels(tmp_path / LEVELS_FILE, reached([stored], (), ()))
    recorded = read_levels([tmp_path, stored])

    def badges(rows: list[Row]) -> dict[str, list[str]]:
        board = make_board(GRID, rows, recorded)
        return {entry.agent: level(board, entry, board.cells[entry.track, entry.agent]) for entry in board.entries}

    assert badges(ROWS) == {A: ["L1"], B: ["L1"]}
    first = labelled(ROWS, A)[0]
    changed = msgspec.structs.replace(first, cost=msgspec.structs.replace(first.cost, wall_s=99.0))
    # What is left is what rows show by themselves, and made ones are not even well-formed.
    assert badges([changed if row is first else row for row in ROWS]) == {A: [], B: ["L1"]}


def test_a_record_keeps_others_and_the_higher_level_of_the_same_rows(tmp_path: Path) -> None:
    file = tmp_path / LEVELS_FILE
    old = [Level("s", "a@1", "L3", "1"), Level("s", "b@1", "L2", "1"), Level("s", "c@1", "L2", "1")]
    record_levels(file, old)
    record_levels(file, [Level("s", "b@1", "L1", "1"), Level("s", "c@1", "L1", "2"), Level("r", "a@1", "L1", "1")])
    assert read_levels([tmp_path]) == [Level("r", "a@1", "L1", "1"), *old[:2], Level("s", "c@1", "L1", "2")]


def test_a_broken_record_is_told_in_a_line(tmp_path: Path) -> None:
    (tmp_path / LEVELS_FILE).write_text("levels: [{suite: s, agent: a, level: L9, rows: x}]\n")
    with pytest.raises(InputError, match=r"levels\.yaml: .*level"):
        read_levels([tmp_path])


def test_the_digest_takes_rows_in_any_order() -> None:
    assert rows_digest(ROWS) == rows_digest(ROWS[::-1]) != rows_digest(ROWS[1:])
