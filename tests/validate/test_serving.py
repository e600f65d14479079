from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from measured_rows import SERVED, STRANGE

from lts_bench.validate.serving import COLUMNS, layout_choice, predict_serving, scored, summarise_serving
from lts_bench.validate.table import Prediction, Table

NONE = Path("nowhere")
EXPERTS = SERVED | {"config_name": "mixtral-8x7b", "gpus": "8", "tp": "8", "moe_tp": "8", "moe_ep": "1"}


def table(*rows: dict[str, str]) -> Table:
    return Table("runs.csv", tuple(rows[0]), rows)


def predict(*rows: dict[str, str], **constants: float) -> list[Prediction]:
    return predict_serving(table(*rows), NONE, constants)


def test_a_run_is_predicted() -> None:
    (found,) = predict(SERVED)
    assert set(found.values) == set(COLUMNS)
    # 15 GB of weights on two devices: 2.4 ms at the least.
    assert 2.4 < found.values["tpot_ms"] < 10 < found.values["ttft_ms"] < 200
    assert found.group == ("llama-3.1-8b", "h100_sxm", "vllm", "0.19.0", "bf16", "1024", "128", "2", "2", "1", "1",
                           "1", "2")  # fmt: skip


def test_constants_replace_those_of_the_engine() -> None:
    old, new = predict(SERVED)[0], predict(SERVED, request_overhead_ms=1020.1)[0]
    assert new.values["ttft_ms"] - old.values["ttft_ms"] == pytest.approx(1000)
    assert new.values["tpot_ms"] == old.values["tpot_ms"]


def test_clients_beyond_the_room_queue() -> None:
    # 256 sequences of 128k tokens do not fit into two devices.
    crowd, more = predict(*(SERVED | {"isl_tokens": "130000", "concurrency_total": n} for n in ("256", "512")))
    assert more.values["tpot_ms"] == crowd.values["tpot_ms"]
    assert more.values["ttft_ms"] > 1.9 * crowd.values["ttft_ms"] > 1e5


def test_clients_are_those_of_a_rank() -> None:
    ranks = {"tp": "1", "attention_dp": "8", "moe_tp": "1", "moe_ep": "8"}
    eight, four = predict(*(EXPERTS | ranks | {"concurrency_total": n} for n in ("8", "4")))
    # Half a client a rank is still one.
    assert eight.values == four.values


def test_devices_beyond_one_replica_are_further_ones() -> None:
    one, two, idle = predict(SERVED, *(SERVED | {"gpus": n, "concurrency_total": "16"} for n in ("4", "5")))
    assert one.values == two.values == idle.values


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ({"config_name": "nothing"}, "unknown model 'nothing'"),
        ({"system": "abacus"}, "unknown system 'abacus'"),
        ({"engine": "llama.cpp"}, "unknown engine 'llama.cpp'"),
        ({"precision": "fp7"}, "unknown precision 'fp7'"),
        ({"tp": ""}, "tp is missing"),
        ({"gpus": "2.5"}, "gpus must be a whole number, not '2.5'"),
        ({"concurrency_total": "-8"}, "concurrency_total must be a positive number, 1e-18 to 1e+18, not '-8'"),
        ({"tp": "4"}, "tp · dp · pp = 4 exceeds the 2 devices"),
        ({"config_name": "llama-3.1-405b"}, "the weights and one sequence exceed the memory"),
        ({"gpus": "12"}, "cluster h100-12: devices: must fill whole domains of 8 devices, or be a part of one (got 12)"
                         "; legal: 8, 16"),
    ],
)  # fmt: skip
def test_rows_without_an_answer_tell_why(cells: dict[str, str], reason: str) -> None:
    (found,) = predict(SERVED | cells)
    assert found.skipped == reason and not found.values


def test_columns_may_be_missing() -> None:
    for name in SERVED:
        (found,) = predict({key: cell for key, cell in SERVED.items() if key != name})
        assert bool(found.values) != bool(found.skipped)


def test_strange_cells_are_answered_or_skipped() -> None:
    rows = [row | {name: cell} for row in (SERVED, EXPERTS) for name in SERVED for cell in STRANGE]
    found = predict(*rows)
    assert len(found) == len(rows)
    assert all(bool(each.values) != bool(each.skipped) for each in found)
    summarise_serving(table(*rows), found)


def test_heads_and_experts_that_do_not_divide_are_padded() -> None:
    odd = {"gpus": "3", "tp": "3", "moe_tp": "1", "moe_ep": "3"}
    assert all(each.values for each in predict(SERVED | odd, EXPERTS | odd))


def test_ttft_that_is_not_scored_is_predicted() -> None:
    queueing = SERVED | {"ttft_not_scored": " TRUE"}
    assert [row["ttft_ms"] for row in scored(table(SERVED, queueing)).rows] == ["100", ""]
    runs = table(SERVED, queueing, SERVED | {"ttft_ms": "", "tpot_ms": ""})
    found = summarise_serving(runs, predict_serving(runs, NONE))
    assert found["predicted"] == 3
    assert (found["errors"]["ttft_ms"]["rows"], found["errors"]["tpot_ms"]["rows"]) == (1, 2)


def choose(*runs: tuple[str, float, float], group: str = "8") -> dict[str, float]:
    """The choice between layouts, from (tp, predicted, measured)."""
    rows = tuple(SERVED | {"tp": tp, "tpot_ms": str(truth), "concurrency_total": group} for tp, _, truth in runs)
    return layout_choice(Table("t", tuple(SERVED), rows), answers([predicted for _, predicted, _ in runs]))


def answers(predicted: Sequence[float]) -> list[Prediction]:
    return [Prediction({"tpot_ms": value}) for value in predicted]


def test_the_best_layout_is_a_hit() -> None:
    assert choose(("1", 5, 10), ("2", 6, 12)) == {"groups": 1, "hit_percent": 100, "regret_percent": 0}


def test_another_one_costs_its_excess() -> None:
    found = choose(("1", 7, 10), ("2", 6, 12), ("4", 8, 20))
    assert (found["groups"], found["hit_percent"], found["regret_percent"]) == (1, 0, pytest.approx(20))


def test_ties_go_to_the_first_layout() -> None:
    assert choose(("1", 6, 12), ("2", 6, 10))["regret_percent"] == pytest.approx(20)


def test_runs_of_a_layout_count_with_their_median() -> None:
    # 10, 30 and 20 measured: 20; the other layout has 18.
    found = choose(("1", 5, 10), ("1", 5, 30), ("1", 5, 20), ("2", 6, 18))
    assert (found["groups"], found["regret_percent"]) == (1, pytest.approx(100 * (20 / 18 - 1)))


@pytest.mark.parametrize("runs", [[("1", 6, 10), ("2", 5, 10.9)], [("1", 6, 10), ("1", 5, 20)], [("1", 6, 10)]])
def test_choices_that_do_not_matter(runs: list[tuple[str, float, float]]) -> None:
    assert choose(*runs) == {"groups": 0, "hit_percent": None, "regret_percent": None}


def test_layouts_of_other_loads_do_not_compete() -> None:
    rows = (SERVED | {"tp": "1"}, SERVED | {"tp": "2", "tpot_ms": "60", "concurrency_total": "16"})
    assert layout_choice(Table("t", tuple(SERVED), rows), answers([2, 1]))["groups"] == 0


def run(path: Path, models: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lts_bench", "validate", "serving", path, "--models", models, *options]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True)


def test_the_command_keeps_rows_and_columns(tmp_path: Path) -> None:
    # A byte-order mark, Windows line ends, quoted cells, a column of one's own.
    rows = [SERVED | {"note": 'one, "quoted"'}, SERVED | {"note": "two", "system": "abacus"}, SERVED | {"note": ""}]
    file, out = tmp_path / "runs.csv", tmp_path / "out.csv"
    with file.open("w", newline="", encoding="utf-8-sig") as text:
        writer = csv.DictWriter(text, list(rows[0]), lineterminator="\r\n", quoting=csv.QUOTE_ALL)
        writer.writeheader()
        writer.writerows(rows)
    told = run(file, tmp_path, "--out", out, "--json")
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    assert (document["rows"], document["predicted"], document["skipped"]) == (3, 2, {"unknown system 'abacus'": 1})
    with out.open(newline="", encoding="utf-8") as text:
        found = list(csv.DictReader(text))
    assert [{name: row[name] for name in rows[0]} for row in found] == rows
    assert [bool(row["tpot_ms_predicted"]) for row in found] == [True, False, True]
    assert [row["skipped_reason"] for row in found] == ["", "unknown system 'abacus'", ""]


def test_bad_input_ends_with_exit_code_2(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    file.write_text(f"{','.join(SERVED)}\n{','.join(SERVED.values())}\n")
    for path, models, named in ((file, tmp_path / "none", "models"), (file, file, "models"),
                                (tmp_path / "none.csv", tmp_path, "none.csv")):  # fmt: skip
        told = run(path, models, "--out", tmp_path / "out.csv")
        assert told.returncode == 2
        assert told.stderr.startswith("error: ") and told.stderr.count("\n") == 1 and named in told.stderr
        assert not (tmp_path / "out.csv").exists()
