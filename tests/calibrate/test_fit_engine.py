from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest

from lts_bench.calibrate.engine import Samples, fit_engine
from lts_bench.specs.engine import Engine, load_engine
from lts_bench.specs.failure import InputError
from lts_bench.validate.serving import predict_serving
from lts_bench.validate.table import Table

NONE = Path("nowhere")
VLLM = load_engine("vllm")
TRUE = {
    "sequence_overhead_us": 25.0,
    "small_kernels_per_layer": 4.0,
    "request_overhead_ms": 50.0,
    "prompt_token_overhead_us": 3.0,
    "burst": 0.2,
}
COLUMNS = ("engine", "config_name", "system", "precision", "isl_tokens", "osl_tokens", "concurrency_total", "gpus",
           "tp", "ttft_ms", "tpot_ms")  # fmt: skip


def runs(engine: str = "vllm", models: tuple[str, ...] = ("llama-3.1-8b", "qwen3-32b")) -> Table:
    """What an engine with the true constants would measure."""
    cells = [
        (engine, model, "h100_sxm", "bf16", isl, "256", clients, "4", "4", "", "")
        for model in models
        for isl in ("256", "8192")
        for clients in ("1", "8", "64", "256")
    ]
    rows = [dict(zip(COLUMNS, each, strict=True)) for each in cells]
    answers = predict_serving(Table("t", COLUMNS, tuple(rows)), NONE, TRUE)
    measured = tuple(row | {name: str(value) for name, value in each.values.items()}
                     for row, each in zip(rows, answers, strict=True))  # fmt: skip
    return Table("runs.csv", COLUMNS, measured)


@pytest.fixture(scope="module")
def table() -> Table:
    return runs()


def test_a_fit_finds_back_what_made_the_table(table: Table) -> None:
    fitted, report = fit_engine(table, VLLM, NONE, ["host", "requests"])
    for name, value in TRUE.items():
        assert getattr(fitted, name) == pytest.approx(value, rel=0.03), name
    assert msgspec.structs.replace(fitted, **{name: getattr(VLLM, name) for name in TRUE}) == VLLM
    assert [(line["kind"], line["library"], line["rows"]) for line in report] == [
        (column, what, 16) for column in ("tpot_ms", "ttft_ms") for what in ("as fitted", "models held out")
    ]
    assert all(line["median_error_percent"] < 1 for line in report)


def test_one_part_leaves_the_other_alone(table: Table) -> None:
    fitted, _ = fit_engine(table, VLLM, NONE, ["host"])
    assert fitted.request_overhead_ms == VLLM.request_overhead_ms and fitted.burst == VLLM.burst


def test_predictions_at_any_constants_are_those_of_the_validator(table: Table) -> None:
    samples = Samples(table, VLLM, NONE, "host")
    constants = {"sequence_overhead_us": 7.0, "small_kernels_per_layer": 13.0}
    others = {name: getattr(VLLM, name) for name in TRUE if name not in constants}
    expected = [each.values["tpot_ms"] for each in predict_serving(table, NONE, others | constants)]
    assert samples.at(constants) == pytest.approx(np.array(expected), rel=1e-6)


def test_rows_are_held_out_by_cell(table: Table) -> None:
    samples = Samples(table, VLLM, NONE, "host")
    assert samples.held_out("system") is None
    # A model that is half as fast does not hide behind its own rows.
    slow = [row["config_name"] == "qwen3-32b" for row in samples.rows]
    samples.truth[slow] *= 2
    unseen = samples.held_out("config_name")
    assert unseen is not None
    assert unseen[slow] == pytest.approx(samples.truth[slow] / 2, rel=0.02)


def test_only_the_engine_s_own_runs_count_but_for_the_generic_one(table: Table) -> None:
    other = runs("trtllm", ("llama-3.1-8b",))
    both = Table("t", COLUMNS, table.rows + other.rows)
    assert len(Samples(both, VLLM, NONE, "host").rows) == 16
    assert len(Samples(both, load_engine("generic"), NONE, "host").rows) == 24


@pytest.mark.parametrize("kept", [0, 9])
def test_too_few_runs_are_refused(table: Table, kept: int) -> None:
    few = Table("runs.csv", COLUMNS, table.rows[:kept])
    with pytest.raises(InputError, match=f"too few runs of vllm to fit .got {kept}.; legal: 10 or more"):
        fit_engine(few, VLLM, NONE, ["host"])


def test_the_command_writes_an_engine(table: Table, tmp_path: Path) -> None:
    file, out = tmp_path / "runs.csv", tmp_path / "mine.yaml"
    file.write_text("\n".join([",".join(COLUMNS), *(",".join(row.values()) for row in table.rows)]) + "\n")
    command = [sys.executable, "-m", "lts_bench", "calibrate", str(file), "--engine", "vllm", "--out", str(out)]
    told = subprocess.run([*command, "--only", "host", "--models", str(tmp_path)], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    fitted: Engine = load_engine(out)
    assert fitted.sequence_overhead_us == pytest.approx(25, rel=0.03)
    out.unlink()
    for options in ([], ["--models", str(file)], ["--models", str(tmp_path), "--only", "x"]):
        told = subprocess.run([*command, *options], capture_output=True, text=True)
        assert told.returncode == 2 and told.stderr.startswith("error: ") and told.stderr.count("\n") == 1
    assert not out.exists()
