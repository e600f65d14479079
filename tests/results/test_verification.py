from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lts_bench.budget import parse_budget
from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact import certificates
from lts_bench.exact.certificates import Certificate, certificate_of, drawn_task
from lts_bench.harness.cells import AgentCard, TaskCard, make_cells
from lts_bench.harness.runner import run_cell
from lts_bench.results import verification
from lts_bench.results.checks import Record
from lts_bench.results.grids import Grid
from lts_bench.results.schema import Optimum, Point, Row, encode_row, trace_digest
from lts_bench.results.store import write_grid, write_row
from lts_bench.results.verification import verification_document, verification_lines, verify
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Slo, Workload
from lts_bench.task import Task

SPEC = TaskSpec("llama-3.1-8b/h100x4/tests", "llama-3.1-8b", "h100x4", Workload(512, 128, Slo(tpot_ms=50.0)))
TASK = Task(SPEC)
GRID = Grid.of(Suite("mini", "", ("random",), 2, "e50", (SPEC,)))


def run(spec: TaskSpec, log: Path, *names: str) -> list[Row]:
    """Return the cells of agents on two instances of a task."""
    agents = [AgentCard(name, name, "1", "search", {}, "a") for name in names]
    task = Task(spec)
    card = TaskCard(spec, task.digest, task.space.digest, COST_MODEL_VERSION)
    found: list[Row] = []
    for cell in make_cells(agents, [card], GRID.seeds, parse_budget("e50"), "in_process"):
        certificate = certificate_of(task, cell.instance)
        optimum = Optimum(goodput_per_npu=certificate.optimum, certified=certificate.certified)
        found.append(run_cell(cell, drawn_task(task, cell.instance), optimum, log))
    return found


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    return run(SPEC, tmp_path_factory.mktemp("logs") / "log", "random", "megatron_search")


def longest(rows: list[Row]) -> Row:
    return max(rows, key=lambda row: len(row.trace))


def store(directory: Path, rows: list[Row], grid: Grid | None = GRID) -> Path:
    for row in rows:
        write_row(directory, row)
    if grid is not None:
        write_grid(directory, grid)
    return directory


def failures(directory: Path) -> list[Record]:
    return [record for record in verify([directory]) if not record.ok]


def told(directory: Path) -> set[tuple[str, str]]:
    return {(record.name, record.field) for record in failures(directory)}


def sealed(row: Row, changes: dict[str, Any]) -> Row:
    """Return the row with changes, its digests made right again."""
    trace = changes.get("trace", row.trace)
    changed = msgspec.structs.replace(row, **(changes | {"trace_digest": trace_digest(trace)}))
    return msgspec.structs.replace(changed, run_id=changed.expected_run_id)


def tampered(rows: list[Row], directory: Path, changes: dict[str, Any]) -> Row:
    """Store the rows, the one of the longest trace with changes, and return that."""
    victim = longest(rows)
    changed = sealed(victim, changes)
    store(directory, [changed if row is victim else row for row in rows])
    return changed


def scaled(row: Row, factor: float) -> dict[str, Any]:
    """Changes that make the final goodput so many times as high."""
    assert row.best is not None
    goodput = row.best.goodput_per_npu * factor
    last = msgspec.structs.replace(row.trace[-1], goodput_per_npu=goodput)
    best = msgspec.structs.replace(row.best, goodput_per_npu=goodput)
    return {"trace": (*row.trace[:-1], last), "best": best}


def test_what_a_run_leaves_is_right(rows: list[Row], tmp_path: Path) -> None:
    document = verification_document(verify([store(tmp_path, rows)]))
    assert (document["failed"], verification_lines(document)) == (0, [f"{len(document['checks'])} checks, 0 failed"])
    names = {check["name"] for check in document["checks"]}
    assert names == {
        "row", "grid", "suite", "complete", "run_id", "instance", "budget", "status", "certificate", "task", "best",
        "trace", "replay", "optimum", "regret", "bound", "reference",
    }  # fmt: skip
    assert {check["level"] for check in document["checks"]} == {"L0", "L1"}
    json.dumps(document, allow_nan=False)


def test_scores_are_never_above_1(rows: list[Row]) -> None:
    assert all(0 < row.score <= 1 + 1e-9 for row in rows)
    assert all(row.regret == 1 - row.score for row in rows)


def test_lines_of_a_jsonl_are_named(rows: list[Row], tmp_path: Path) -> None:
    store(tmp_path, [])
    lines = [encode_row(row) for row in rows]
    (tmp_path / "runs.jsonl").write_bytes(b"".join([lines[0], b'{"x\n', *lines[1:], b'{"unfinished']))
    assert [(record.file, record.name) for record in failures(tmp_path)] == [
        (f"{tmp_path}/runs.jsonl:2", "row"),
        (f"{tmp_path}/runs.jsonl:6", "row"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b'"seed":1', b'"seed":"1"', "seed"),
        (b'"trace_digest":"', b'"trace_digest":"0', "trace_digest"),
        (b'"trace":[[1,', b'"trace":[[99,', "trace"),
        (b'"schema_version":3', b'"schema_version":9', "schema_version"),
    ],
)
def test_a_row_that_breaks_the_schema_is_named(
    rows: list[Row], tmp_path: Path, old: bytes, new: bytes, field: str
) -> None:
    store(tmp_path, rows)
    row = longest([row for row in rows if row.seed == 1])
    path = tmp_path / f"{row.run_id}.json"
    path.write_bytes(path.read_bytes().replace(old, new))
    broken, missing = failures(tmp_path)
    assert (broken.name, broken.file, broken.field) == ("row", str(path), field)
    assert not broken.message.startswith(str(path))
    assert (missing.name, missing.message) == ("complete", f"{SPEC.name} seed 1 is there 0 times")


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"task_digest": "0" * 64}, {("task", "task_digest"), ("task", "task")}),
        ({"space_digest": "0" * 64}, {("task", "space_digest")}),
        ({"reference": 1.0}, {("reference", "reference")}),
        ({"regret": 0.5}, {("regret", "regret")}),
        ({"regret": None}, {("regret", "regret")}),
        ({"optimum": None}, {("optimum", "optimum"), ("regret", "regret")}),
        ({"instance": 9}, {("instance", "instance")}),
        ({"first_feasible": 40}, {("status", "first_feasible")}),
        ({"status": "no_solution"}, {("status", "status"), ("regret", "regret")}),
        ({"budget": "e9"}, {("budget", "budget"), ("complete", "AGENT")}),
    ],
)
def test_a_tampered_field_is_named(
    rows: list[Row], tmp_path: Path, changes: dict[str, Any], fields: set[tuple[str, str]]
) -> None:
    row = tampered(rows, tmp_path, changes)
    named = {(name, field.replace("AGENT", row.label)) for name, field in fields}
    found = told(tmp_path)
    # On another instance nothing that depends on it is right.
    assert found >= named if "instance" in changes else found == named


def test_a_wrong_run_id_is_named(rows: list[Row], tmp_path: Path) -> None:
    row = msgspec.structs.replace(rows[0], parameters={"rate": 2})
    (record,) = failures(store(tmp_path, [row, *rows[1:]]))
    assert (record.name, record.file, record.field) == ("run_id", f"{tmp_path}/{row.run_id}.json", "run_id")


def test_a_raised_goodput_is_caught_in_the_trace_and_at_its_end(rows: list[Row], tmp_path: Path) -> None:
    row = tampered(rows, tmp_path, scaled(longest(rows), 1 + 1e-6))
    last = f"trace[{len(row.trace) - 1}].goodput_per_npu"
    assert told(tmp_path) >= {("best", "best.goodput_per_npu"), ("trace", last), ("regret", "regret")}
    assert {record.file for record in failures(tmp_path)} == {f"{tmp_path}/{row.run_id}.json"}


def test_nothing_exceeds_the_bound(rows: list[Row], tmp_path: Path) -> None:
    row = tampered(rows, tmp_path, scaled(longest(rows), 2.0))
    assert ("bound", f"trace[{len(row.trace) - 1}].goodput_per_npu") in told(tmp_path)


@pytest.mark.parametrize("field", ["ttft_s", "tpot_s", "memory_bytes", "slo_margin", "slo_met"])
def test_every_answer_of_the_final_strategy_is_scored_again(rows: list[Row], tmp_path: Path, field: str) -> None:
    best = longest(rows).best
    value = False if field == "slo_met" else 1.0
    tampered(rows, tmp_path, {"best": msgspec.structs.replace(best, **{field: value})})
    assert told(tmp_path) == {("best", f"best.{field}")}


@pytest.mark.parametrize(
    ("field", "value"), [("attainment", 0.5), ("offered_requests_per_s", 1.0), ("goodput_per_npu", 1.0)]
)
def test_every_figure_of_the_replay_is_found_again(rows: list[Row], tmp_path: Path, field: str, value: float) -> None:
    replay = longest(rows).replay
    assert replay is not None
    tampered(rows, tmp_path, {"replay": msgspec.structs.replace(replay, **{field: value})})
    assert told(tmp_path) == {("replay", f"replay.{field}")}


def test_a_replay_of_nothing_is_named_and_so_is_a_missing_one(rows: list[Row], tmp_path: Path) -> None:
    nothing = {"best": None, "trace": (), "first_feasible": None, "status": "no_solution", "regret": 1.0}
    tampered(rows, tmp_path / "nothing", nothing)
    assert told(tmp_path / "nothing") == {("replay", "replay")}
    tampered(rows, tmp_path / "none", {"replay": None})
    assert told(tmp_path / "none") == {("replay", "replay")}


@pytest.mark.parametrize("vector", [(), (0,), (10**6,) * len(TASK.space.names), (0,) * (len(TASK.space.names) + 1)])
def test_a_vector_that_cannot_be_scored_is_named(rows: list[Row], tmp_path: Path, vector: tuple[int, ...]) -> None:
    victim = longest(rows)
    trace = (msgspec.structs.replace(victim.trace[0], vector=vector), *victim.trace[1:])
    tampered(rows, tmp_path, {"trace": trace})
    assert told(tmp_path) == {("trace", "trace[0].vector")}


@pytest.mark.parametrize(
    "strategy", [{"tp": 3}, {"tp": 1, "sharding": {"nothing": ["R"]}}, {"pp": 2, "stages": [1, 31]}]
)
def test_a_strategy_that_cannot_be_scored_is_named(rows: list[Row], tmp_path: Path, strategy: dict[str, Any]) -> None:
    tampered(rows, tmp_path, {"best": msgspec.structs.replace(longest(rows).best, strategy=strategy)})
    assert told(tmp_path) == {("best", "best.strategy")}


def test_the_final_strategy_is_the_last_of_the_trace(rows: list[Row], tmp_path: Path) -> None:
    victim = longest(rows)
    other = TASK.space.decode(victim.trace[0].vector).to_json()
    best = msgspec.structs.replace(victim.best, strategy=other)
    tampered(rows, tmp_path, {"best": best})
    assert ("best", "best.strategy") in told(tmp_path)


def test_evaluations_keep_to_the_budget(rows: list[Row], tmp_path: Path) -> None:
    victim = longest(rows)
    late: tuple[Point, ...] = (*victim.trace[:-1], msgspec.structs.replace(victim.trace[-1], evaluation=60))
    cost = msgspec.structs.replace(victim.cost, evaluations=70)
    tampered(rows, tmp_path, {"trace": late, "cost": cost})
    assert told(tmp_path) == {("budget", "cost.evaluations"), ("budget", f"trace[{len(late) - 1}].evaluation")}


@pytest.mark.parametrize(
    ("optimum", "field"),
    [
        (Optimum(goodput_per_npu=1.0, certified=True), "optimum.goodput_per_npu"),
        (None, "optimum.certified"),
    ],
)
def test_the_optimum_is_the_certificates(rows: list[Row], tmp_path: Path, optimum: Optimum | None, field: str) -> None:
    victim = longest(rows)
    changed = optimum or msgspec.structs.replace(victim.optimum, certified=False)
    assert victim.best is not None
    regret = 1 - victim.best.goodput_per_npu / changed.goodput_per_npu
    tampered(rows, tmp_path, {"optimum": changed, "regret": regret})
    assert told(tmp_path) == {("optimum", field)}


def test_missing_cells_and_those_that_are_there_twice_are_told(rows: list[Row], tmp_path: Path) -> None:
    first, *others = rows
    store(tmp_path / "a", others)
    (record,) = failures(tmp_path / "a")
    assert (record.file, record.field, record.message) == ("mini", first.label, f"{SPEC.name} seed 1 is there 0 times")
    store(tmp_path / "b", [sealed(first, {"parameters": {"rate": 1}}), *rows])
    (record,) = failures(tmp_path / "b")
    assert (record.name, record.message) == ("complete", f"{SPEC.name} seed 1 is there 2 times")


def test_another_outcome_of_one_run_is_told(rows: list[Row], tmp_path: Path) -> None:
    store(tmp_path / "a", rows)
    store(tmp_path / "b", [msgspec.structs.replace(rows[0], regret=0.5)])
    (record,) = failures(tmp_path)
    assert (record.name, record.file, record.field) == ("row", f"{tmp_path}/b/{rows[0].run_id}.json", "regret")


def test_rows_of_another_cost_model_are_told_and_are_no_failure(rows: list[Row], tmp_path: Path) -> None:
    older = msgspec.structs.replace(
        longest(rows), run_id="0" * 64, optimum=None, regret=None,
        provenance=msgspec.structs.replace(rows[0].provenance, cost_model="0"),
    )  # fmt: skip
    document = verification_document(verify([store(tmp_path, [*rows, older])]))
    assert document["failed"] == 0
    assert verification_lines(document)[0] == (
        f"{tmp_path}/{'0' * 64}.json: provenance.cost_model: is 0: not verifiable under version {COST_MODEL_VERSION}"
    )


def test_a_task_that_no_suite_holds_is_told(rows: list[Row], tmp_path: Path) -> None:
    store(tmp_path / "a", rows, grid=None)
    assert told(tmp_path / "a") == {("suite", "task"), ("task", "task")}
    store(tmp_path / "b", rows, msgspec.structs.replace(GRID, specs=()))
    assert told(tmp_path / "b") == {("task", "task")}


def test_no_stored_spec_takes_the_place_of_a_built_in_suites(rows: list[Row], tmp_path: Path) -> None:
    (name, *_), grid = load_suite("smoke").tasks, Grid.of(load_suite("smoke"))
    easy = msgspec.structs.replace(SPEC, name=name.name, model=name.model, cluster=name.cluster)
    wanted = Task(easy)
    changes = {"task": easy.name, "task_digest": wanted.digest, "space_digest": wanted.space.digest, "budget": "e100"}
    forged = [sealed(row, changes) for row in rows]
    store(tmp_path, forged, msgspec.structs.replace(grid, specs=(easy,)))
    assert {record.file for record in failures(tmp_path) if record.field == "task_digest"} == {
        f"{tmp_path}/{row.run_id}.json" for row in forged
    }


def test_a_task_may_have_the_name_of_a_built_in_one(tmp_path: Path) -> None:
    name = load_suite("smoke").tasks[0].name
    spec = msgspec.structs.replace(SPEC, name=name, cluster="h100x8")
    grid = Grid.of(Suite("mini", "", ("random",), 2, "e50", (spec,)))
    assert failures(store(tmp_path / "runs", run(spec, tmp_path / "log", "random"), grid)) == []


def test_a_broken_grid_is_told_and_the_rows_are_still_checked(rows: list[Row], tmp_path: Path) -> None:
    tampered(rows, tmp_path, {"regret": 0.5})
    write_grid(tmp_path / "other", msgspec.structs.replace(GRID, seeds=(1,)))
    assert ("grid", "name") in told(tmp_path)
    assert ("regret", "regret") in told(tmp_path)


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[tuple[str, str, int], Certificate]]:
    """Stored certificates, none at first."""
    stored: dict[tuple[str, str, int], Certificate] = {}
    for module in (certificates, verification):
        monkeypatch.setattr(module, "stored_certificates", lambda: stored)
    monkeypatch.setattr(certificates, "_known", {})
    yield stored


@pytest.mark.parametrize(
    ("factors", "fields"),
    [
        ({"goodput_per_npu": 0.9}, {"goodput_per_npu"}),
        ({"bound": 0.9}, {"bound"}),
        ({"goodput_per_npu": 1.1, "bound": 1.1}, {"goodput_per_npu"}),
    ],
)
def test_stored_certificates_are_checked(
    rows: list[Row],
    tmp_path: Path,
    shelf: dict[tuple[str, str, int], Certificate],
    factors: dict[str, float],
    fields: set[str],
) -> None:
    # One that no row uses.
    right = certificates.certify(TASK, 3)
    changes = {name: getattr(right, name) * factor for name, factor in factors.items()}
    shelf[TASK.digest, COST_MODEL_VERSION, 3] = msgspec.structs.replace(right, **changes)
    records = failures(store(tmp_path, rows))
    assert {(record.name, record.field) for record in records} == {("certificate", field) for field in fields}
    assert {record.file for record in records} == {f"certificate of {SPEC.name} instance 3"}


def test_every_failure_is_told_none_hides_another(rows: list[Row], tmp_path: Path) -> None:
    changed = [msgspec.structs.replace(row, regret=0.5, reference=1.0) for row in rows]
    records = failures(store(tmp_path, changed))
    assert len(records) == 2 * len(rows)


def test_no_results_are_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no results are there"):
        verify([tmp_path])
    with pytest.raises(InputError, match="no such directory"):
        verify([tmp_path / "nothing"])


KINDS: dict[str, tuple[Callable[[bytes], bytes], str, str]] = {
    "version": (lambda data: data.replace(b'"version":"1"', b'"version":"9"'), "run_id", "run_id"),
    "track": (lambda data: data.replace(b'"track":"search"', b'"track":"oracle"'), "run_id", "run_id"),
    "agent": (lambda data: data.replace(b'"agent":"', b'"agent":"x'), "run_id", "run_id"),
    "seed": (lambda data: data.replace(b'"seed":1', b'"seed":7'), "run_id", "run_id"),
    "NaN": (lambda data: data.replace(b'"reference":', b'"reference":NaN,"x":'), "row", ""),
    "infinity": (lambda data: data.replace(b'"regret":', b'"regret":1e999,"x":'), "row", ""),
    "half a file": (lambda data: data[: len(data) // 2], "row", ""),
    "the trace's digest": (lambda data: data.replace(b'"trace_digest":"', b'"trace_digest":"f'), "row", "trace_digest"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_tampered_file_is_told_with_its_name(rows: list[Row], tmp_path: Path, kind: str) -> None:
    change, name, field = KINDS[kind]
    store(tmp_path, rows)
    victim = longest([row for row in rows if row.seed == 1])
    path = tmp_path / f"{victim.run_id}.json"
    path.write_bytes(change(path.read_bytes()))
    lines = verification_lines(verification_document(verify([tmp_path])))
    assert (name, field) in told(tmp_path)
    assert any(line.startswith(str(path)) for line in lines)


def test_another_seeds_file_renamed_is_told(rows: list[Row], tmp_path: Path) -> None:
    store(tmp_path, rows)
    first, second = (tmp_path / f"{row.run_id}.json" for row in rows[:2])
    first.write_bytes(second.read_bytes())
    assert ("row", "run_id") in told(tmp_path)
    assert ("complete", rows[0].label) in told(tmp_path)
