from __future__ import annotations

import csv
from pathlib import Path

import pytest

from lts_bench.specs.failure import InputError
from lts_bench.validate.table import (
    Prediction,
    Row,
    SkipError,
    Table,
    error_statistics,
    measured,
    number,
    predict_each,
    read_table,
    summarise,
    write_predictions,
)


def written(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_rows_map_columns_to_text(tmp_path: Path) -> None:
    # A byte-order mark, Windows line ends, a quoted comma, an empty line.
    text = '\ufeffa, b ,c\r\n1,"x, y",\r\n\r\n2,,3\r\n'
    table = read_table(written(tmp_path / "t.csv", text))
    assert table.columns == ("a", "b", "c")
    assert table.rows == ({"a": "1", "b": "x, y", "c": ""}, {"a": "2", "b": "", "c": "3"})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "a header and at least one row"),
        ("a,b\n", "a header and at least one row"),
        ("a,b,a\n1,2,3\n", "a: the column occurs twice"),
        ("a,b\n1,2\n3\n", "line 3: has 1 cells where the header has 2"),
        ("a,b\n1,2,3\n", "line 2: has 3 cells where the header has 2"),
        ('a,b\n1,"2\n', "line 2: not a CSV table"),
    ],
)
def test_bad_tables_are_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    path = written(tmp_path / "t.csv", text)
    with pytest.raises(InputError) as caught:
        read_table(path)
    assert str(caught.value).startswith(str(path)) and told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "t.csv").write_bytes(b"a,b\n\xff,1\n")
    with pytest.raises(InputError, match="not UTF-8"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("cell", ["", " ", "0", "-1", "nan", "inf", "12 us"])
def test_only_positive_numbers_are_measurements(cell: str) -> None:
    assert measured({"x": cell}, "x") is None
    with pytest.raises(SkipError, match=r"x is missing|x must be a positive number"):
        number({"x": cell}, "x")


def test_numbers() -> None:
    assert number({"x": " 1e3 "}, "x") == 1000
    with pytest.raises(SkipError, match="y is missing"):
        number({"x": "1"}, "y")


def test_rows_are_skipped_one_by_one() -> None:
    def predict(row: Row) -> Prediction:
        return Prediction({"x": 2 * number(row, "x")})

    assert predict_each([{"x": "1"}, {"x": ""}], predict) == [Prediction({"x": 2}), Prediction(skipped="x is missing")]


TABLE = Table(
    "t.csv", ("name", "x_us"), tuple({"name": f"n{i}", "x_us": x} for i, x in enumerate(("10", "20", "", "40")))
)
ANSWERS = [
    Prediction({"x_us": 11}, ("a",)),
    Prediction({"x_us": 15}, ("a",)),
    Prediction({"x_us": 1234567.891}, ("a",)),
    Prediction(skipped="unknown, name"),
]


def test_predictions_stand_beside_the_rows(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.csv"
    write_predictions(out, TABLE, ANSWERS, ["x_us"])
    assert out.read_text(encoding="utf-8") == (
        'name,x_us,x_us_predicted,skipped_reason\nn0,10,11,\nn1,20,15,\nn2,,1234570,\nn3,40,,"unknown, name"\n'
    )
    # The output is a table again; what was added is replaced.
    again = read_table(out)
    write_predictions(out, again, [Prediction({"x_us": 1})] * 4, ["x_us"])
    with out.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["name", "x_us", "x_us_predicted", "skipped_reason"]
    assert {row["x_us_predicted"] for row in rows} == {"1"}
    assert [path.name for path in out.parent.iterdir()] == ["out.csv"]


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be written"):
        write_predictions(tmp_path / "file" / "out.csv", TABLE, ANSWERS, ["x_us"])


def test_statistics_by_hand() -> None:
    # Errors +10, −25, 0, +50 %.
    found = error_statistics([10, 20, 30, 40], [11, 15, 30, 60])
    assert found["rows"] == 4
    assert found["median_error_percent"] == pytest.approx(17.5)
    assert found["mean_error_percent"] == pytest.approx(21.25)
    assert found["p90_error_percent"] == pytest.approx(0.3 * 25 + 0.7 * 50)
    assert found["bias_percent"] == pytest.approx(5)
    assert found["spearman"] == pytest.approx(1)


def test_ranks_need_three_different_rows() -> None:
    assert error_statistics([1, 2], [1, 2])["spearman"] is None
    assert error_statistics([1, 1, 1], [1, 2, 3])["spearman"] is None
    assert error_statistics([1, 2, 3], [3, 2, 1])["spearman"] == pytest.approx(-1)


def test_summary_counts_and_groups() -> None:
    found = summarise(TABLE, ANSWERS, ["x_us", "y_us"])
    assert found["rows"] == 4 and found["predicted"] == 3
    assert found["skipped"] == {"unknown, name": 1}
    # The third row is predicted, but nothing was measured.
    assert found["errors"]["x_us"]["rows"] == 2
    assert found["groups"]["x_us"]["a"]["median_error_percent"] == pytest.approx(17.5)
    assert found["errors"]["x_us"]["spearman_within_groups"] is None
    assert "y_us" not in found["errors"]


def test_ranks_within_groups_are_weighted_by_rows() -> None:
    table = Table("t", ("x",), tuple({"x": str(x)} for x in (1, 2, 3, 1, 2, 3, 4)))
    up, down = [(1, "a"), (2, "a"), (3, "a")], [(4, "b"), (3, "b"), (2, "b"), (1, "b")]
    answers = [Prediction({"x": value}, (group,)) for value, group in (*up, *down)]
    found = summarise(table, answers, ["x"])
    assert found["errors"]["x"]["spearman_within_groups"] == pytest.approx((3 * 1 + 4 * -1) / 7)
