from __future__ import annotations

import pytest
from measured_rows import SERVED

from lts_bench.validate.accuracy_page import errors_line, errors_table, held_out_table, intervals_table, most
from lts_bench.validate.accuracy_plots import scatter
from lts_bench.validate.answers import Answered, Pair
from lts_bench.validate.fitted import fitted_constants
from lts_bench.validate.held_out import Unseen
from lts_bench.validate.show import decimals
from lts_bench.validate.table import Table


def pairs(*errors: float, **cells: str) -> list[Pair]:
    """Measured 10, 20, 30 …; predicted with the given relative errors."""
    truths = [10.0 * place for place in range(1, len(errors) + 1)]
    return [Pair(SERVED | cells, (), truth, truth * (1 + error)) for truth, error in zip(truths, errors, strict=True)]


def test_a_line_by_hand() -> None:
    # Absolute errors of 10, 25, 0 and 50 %: median 17.5, mean 21.25, p90 0.3 · 25 + 0.7 · 50; signed median 5.
    assert errors_line(pairs(0.1, -0.25, 0, 0.5)) == ["4", "17.5", "21.2", "42.5", "5.0", "1.000"]
    assert errors_line(pairs(-0.0001)) == ["1", "0.0", "0.0", "0.0", "0.0", "–"]


def test_a_table_has_a_line_for_each_group() -> None:
    assert errors_table("What", {"a|b": pairs(0.1), "c": pairs(0.2, 0.2)}) == (
        "| What | Rows | Median % | Mean % | p90 % | Bias % | Spearman |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
        "| a\\|b | 1 | 10.0 | 10.0 | 10.0 | 10.0 | – |\n"
        "| c | 2 | 20.0 | 20.0 | 20.0 | 20.0 | – |\n"
    )


def test_intervals_stand_beside_what_they_are_of() -> None:
    cells = [pair for system in ("a", "b", "c") for pair in pairs(0.1, 0.1, system=system)]
    *_, some, few = intervals_table({"x": cells, "y": cells[:4]}).splitlines()
    assert some == "| x | 6 | 10.0 | 10.0–10.0 | 10.0 | 10.0–10.0 | 10.0 | 10.0 | 1.000 |"
    assert few == "| y | 4 | 10.0 | – | 10.0 | – | 10.0 | 10.0 | 1.000 |"


def test_what_was_held_out() -> None:
    runs = [
        Unseen(SERVED | {"config_name": model}, 10, 10 * seen, {"config_name": 10 * held})
        for model, seen, held in (("A", 1.1, 1.2), ("B", 0.9, 0.7))
    ]
    *_, first, second, every, system, systems = held_out_table({"tpot_ms": runs, "ttft_ms": runs[:1]}).splitlines()
    assert first == "| A | 1 | 10.0 | 20.0 | 1 | 10.0 | 20.0 |"
    assert second == "| B | 1 | 10.0 | 30.0 | – | – | – |"
    assert every == "| every model in turn | 2 | 10.0 | 25.0 | 1 | 10.0 | 20.0 |"
    # All runs are of one system.
    assert system == "| h100_sxm | – | – | – | – | – | – |"
    assert systems == "| every system in turn | – | – | – | – | – | – |"


def test_the_largest_replica_counts_tables_of_engines_only() -> None:
    rows = (SERVED, SERVED | {"gpus": "4", "tp": ""})
    answers = [
        Answered(name, "serving", Table("t", tuple(SERVED), rows), [], ()) for name in ("e2e/a.csv", "kernels/b")
    ]
    assert most(answers, "gpus", "tp") == 4 and most(answers[1:], "gpus") == 1


@pytest.mark.parametrize(
    ("value", "digits", "shown"), [(None, 1, None), (-0.04, 1, "0.0"), (-0.05, 2, "-0.05"), (12.345, 0, "12")]
)
def test_decimals(value: float | None, digits: int, shown: str | None) -> None:
    assert decimals(value, digits) == shown


def test_fitted_constants_are_those_of_the_files() -> None:
    found = {name: value for name, value, _ in fitted_constants()}
    assert len(found) == 6 + 3 * 3
    assert float(found["`request_overhead_ms` of vllm"]) > 0


def test_plots_are_the_same_bytes_every_time() -> None:
    panels = {"time, µs": {"a": pairs(0.1, 0.2), "b": pairs(0.3)}, "TPOT, ms": {"c": pairs(0.1, 0.1)}}
    image = scatter(panels)
    assert image.startswith(b"\x89PNG") and image == scatter(panels)
