"""Cells of a trace file as numbers; a cell is text (CSV) or a JSON value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bools = NDArray[np.bool_]

MOST_TOKENS = 2**31 - 1
TOKENS_RULE = f"must be a whole number from 0 to {MOST_TOKENS}"
NUMBER_RULE = "must be a number ≥ 0"
HASH_IDS_RULE = "must be whole numbers ≥ 0, a list or text such as '0 1 2'"


def parse_numbers(cells: Sequence[Any]) -> tuple[NDArray[Any], Bools]:
    """Read finite numbers, as int64 where all are whole and fit.

    Returns:
        (n,) the numbers, 0 where there is none; (n,) whether it is one and ≥ 0.
    """
    try:
        values = _numbers(cells)
        readable = np.ones(len(cells), dtype=np.bool_)
    except (TypeError, ValueError, OverflowError):
        readable = np.array([_is_number(cell) for cell in cells], dtype=np.bool_)
        values = _numbers([cell if fine else 0 for cell, fine in zip(cells, readable, strict=True)])
    return values, readable & (values >= 0)


def parse_tokens(cells: Sequence[Any]) -> tuple[NDArray[np.int64], Bools]:
    """Read counts of tokens: (n,) counts, 0 where there is none; (n,) whether ``TOKENS_RULE`` holds."""
    values, readable = parse_numbers(cells)
    readable &= (values <= MOST_TOKENS) & (values == np.floor(values))
    return np.where(readable, values, 0).astype(np.int64), readable


def parse_hash_ids(cells: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.uint64], Bools]:
    """Read lists of block ids; an empty cell is an empty list.

    Returns:
        (n,) ids of each request; (ids of all,) the ids; (n,) whether ``HASH_IDS_RULE`` holds.
    """
    lists = [_id_list(cell) for cell in cells]
    readable = np.ones(len(lists), dtype=np.bool_)
    try:
        ids = _ids(lists)
    except (TypeError, ValueError, OverflowError):
        readable = np.array([_is_id_list(each) for each in lists], dtype=np.bool_)
        lists = [each if fine else [] for each, fine in zip(lists, readable, strict=True)]
        ids = _ids(lists)
    return np.fromiter(map(len, lists), dtype=np.int64, count=len(lists)), ids, readable


def _numbers(cells: Sequence[Any]) -> NDArray[Any]:
    kinds = set(map(type, cells))
    if not kinds <= {int, float, str}:
        raise TypeError
    if float not in kinds:
        try:
            return np.array(list(map(int, cells)), dtype=np.int64)
        except (ValueError, OverflowError):
            pass  # text with a fraction, or beyond int64
    values = np.array(list(map(float, cells)), dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError
    return values


def _is_number(cell: Any) -> bool:
    try:
        return type(cell) in (int, float, str) and math.isfinite(float(cell))
    except (ValueError, OverflowError):
        return False


def _id_list(cell: Any) -> Any:
    if cell is None:
        return []
    return cell.strip().removeprefix("[").removesuffix("]").replace(",", " ").split() if isinstance(cell, str) else cell


def _ids(lists: Sequence[Any]) -> NDArray[np.uint64]:
    flat = list(chain.from_iterable(lists))
    if not set(map(type, flat)) <= {int, str}:
        raise TypeError
    return np.array(list(map(int, flat)), dtype=np.uint64)


def _is_id_list(each: Any) -> bool:
    try:
        return bool(isinstance(each, list) and _ids([each]).size >= 0)
    except (TypeError, ValueError, OverflowError):
        return False
