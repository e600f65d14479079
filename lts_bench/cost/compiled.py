"""Compilation of the evaluator's inner loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile with numba and keep the machine code on disk; division by zero gives infinity, no fast-math."""
    fast: Function = njit(cache=True, error_model="numpy")(function)
    return fast
