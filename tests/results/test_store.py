from __future__ import annotations

import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import msgspec
import pytest
from made_rows import grid, make_row, make_rows

import lts_bench
from lts_bench.results.schema import Row, encode_row
from lts_bench.results.store import read_row, read_store, write_grid, write_row
from lts_bench.specs.failure import InputError


def test_rows_of_several_directories_are_merged(tmp_path: Path) -> None:
    rows = make_rows({"a": 1.0, "b": 1.1})
    for index, row in enumerate(rows):
        write_row(tmp_path / ("left" if index % 2 else "right") / "mini", row)
    jsonl = tmp_path / "third" / "runs.jsonl"
    jsonl.parent.mkdir()
    jsonl.write_bytes(b"".join(map(encode_row, rows[:4])))
    stored = read_store([tmp_path / "left", tmp_path / "right", jsonl.parent])
    assert list(stored.rows.values()) == sorted(rows, key=lambda row: row.run_id)
    assert stored.notes == ()


def test_rows_of_one_id_that_differ_are_an_error(tmp_path: Path) -> None:
    row = make_row()
    write_row(tmp_path / "a", row)
    write_row(tmp_path / "b", make_row(score=1.5))
    with pytest.raises(InputError, match=rf"b/{row.run_id}.json: best: differs from .*a/{row.run_id}.json"):
        read_store([tmp_path])


def test_rows_of_one_id_may_differ_in_cost(tmp_path: Path) -> None:
    row = make_row()
    write_row(tmp_path / "a", row)
    write_row(tmp_path / "b", msgspec.structs.replace(row, isolation="in_process"))
    assert list(read_store([tmp_path]).rows.values()) == [row]


def test_an_unfinished_last_line_is_dropped_with_a_note(tmp_path: Path) -> None:
    rows = make_rows({"a": 1.0}, tasks=1)
    (tmp_path / "runs.jsonl").write_bytes(b"".join(map(encode_row, rows)) + b'{"agent": "x", "sco')
    stored = read_store([tmp_path])
    assert len(stored.rows) == 3
    assert stored.notes == (f"{tmp_path}/runs.jsonl:4: dropped an unfinished last line",)


def test_a_bad_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    first, second, _ = make_rows({"a": 1.0}, tasks=1)
    (tmp_path / "runs.jsonl").write_bytes(encode_row(first) + b'{"agent": "x", "sco\n' + encode_row(second))
    with pytest.raises(InputError, match=r"runs\.jsonl:2: not a JSON document"):
        read_store([tmp_path])


def test_a_file_must_bear_its_run_id(tmp_path: Path) -> None:
    path = write_row(tmp_path, make_row())
    moved = path.rename(tmp_path / f"{'0' * 64}.json")
    with pytest.raises(InputError, match="run_id"):
        read_row(moved)


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        read_store([tmp_path / "nothing"])


def _write_many(directory: Path, rows: list[Row]) -> None:
    for row in rows:
        write_row(directory, row)


def test_many_writers_leave_whole_files_and_nothing_else(tmp_path: Path) -> None:
    rows = make_rows({f"a{i}": 1.0 for i in range(4)}, tasks=2, seeds=2)
    with ProcessPoolExecutor(16, mp_context=multiprocessing.get_context("fork")) as pool:
        # Every row is written by every process, so that they collide.
        for done in [pool.submit(_write_many, tmp_path, rows) for _ in range(16)]:
            done.result()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"{row.run_id}.json" for row in rows)
    assert len(read_store([tmp_path]).rows) == 16


def test_what_a_killed_writer_leaves_is_not_read(tmp_path: Path) -> None:
    path = write_row(tmp_path, make_row())
    (tmp_path / f".{path.name}.1.ab.tmp").write_bytes(b'{"half')
    assert len(read_store([tmp_path]).rows) == 1


def test_grids_are_found_beside_the_rows(tmp_path: Path) -> None:
    write_grid(tmp_path / "a", grid())
    write_grid(tmp_path / "b", grid())
    assert read_store([tmp_path]).grids == {"mini": grid()}
    write_grid(tmp_path / "c", grid(seeds=9))
    with pytest.raises(InputError, match="mini"):
        read_store([tmp_path])


def test_a_broken_grid_is_named(tmp_path: Path) -> None:
    (tmp_path / "suite.json").write_text('{"name": 3}')
    with pytest.raises(InputError, match=r"suite\.json: "):
        read_store([tmp_path])


def test_nothing_rests_on_locks_or_databases() -> None:
    sources = [
        path for package in ("results", "harness") for path in (Path(lts_bench.__file__).parent / package).glob("*.py")
    ]
    assert len(sources) > 20
    assert not [path for path in sources if re.search("sqlite|fcntl|flock|lockf", path.read_text(encoding="utf-8"))]
