from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.serving.timestamps import is_date, parse_dates

zones = st.none() | st.integers(-14 * 60, 14 * 60).map(lambda m: datetime.timezone(datetime.timedelta(minutes=m)))
moments = st.datetimes(datetime.datetime(1971, 1, 1), datetime.datetime(2199, 12, 30), timezones=zones)


@given(moment=moments, digits=st.text("0123456789", max_size=6), separator=st.sampled_from("T "))
def test_dates_are_read_as_python_does_but_with_all_digits(
    moment: datetime.datetime, digits: str, separator: str
) -> None:
    head, tail = moment.isoformat(separator, "microseconds")[:26], moment.isoformat()[19:]
    zone = tail[tail.find("+") if "+" in tail else tail.find("-") :] if moment.tzinfo else ""
    (ns,), (readable,), (zoned,) = parse_dates([f"{head}{digits}{zone}"])
    utc = moment.astimezone(datetime.UTC) if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    since = utc - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert readable
    assert zoned == (moment.tzinfo is not None)
    assert ns == since // datetime.timedelta(microseconds=1) * 1000 + int((digits + "000")[:3])


NO_DATES = (
    *("", "5", "NaT", None, 5, "2023-11-16", "18:17:03", "2023-11-16 18:17", "2023-11-16 18:17:03 CET"),
    *(
        "2023-13-16 18:17:03",
        "2023-02-30 18:17:03",
        "2023-11-16 25:17:03",
        "1066-11-16 18:17:03",
        "9999-11-16 18:17:03",
    ),
)


@pytest.mark.parametrize("cell", NO_DATES)
def test_other_cells_are_no_dates(cell: object) -> None:
    ns, readable, _ = parse_dates(["2023-11-16 18:17:03", cell])
    assert readable.tolist() == [True, False]
    assert ns[1] == 0


def test_what_looks_like_a_date() -> None:
    assert is_date("2023-11-16 18:17:03.9799600")
    assert not is_date(1.5)
    assert not is_date("1.5")
