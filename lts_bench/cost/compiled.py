"""Compilation of the evaluator's inner loops, kept on disk from one process to the next.

The compiler is imported where the first function is to be compiled: a process that compiles none starts without it.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import tempfile
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np

from lts_bench.specs.failure import InputError

Function = TypeVar("Function", bound=Callable[..., object])
VECTORISED = "LTS_BENCH_VECTORISED"
"""Environment variable: if set, nothing is compiled."""
MACHINE_CODE = "LTS_BENCH_MACHINE_CODE"
"""Environment variable: the folder of machine code, for processes with the same sources but another home."""

_WAITING: list[tuple[Callable[..., object], bool]] = []
"""Formulas that the compiler does not know yet, and whether it puts them into their callers' code."""

COMPILED = ("cost", "exact", "serving")
"""Folders of the package that hold compiled functions."""


@lru_cache(maxsize=1)
def cache_folder() -> Path:
    """Where machine code is kept: as ``MACHINE_CODE`` says, else a folder for every state of this package's sources.

    A compiled function is not recompiled when another file's function that it calls changes, hence the digest.
    """
    if given := os.environ.get(MACHINE_CODE):
        return Path(given)
    package = Path(__file__).parent.parent
    files = sorted(path for folder in COMPILED for path in (package / folder).glob("*.py"))
    sources = b"".join(path.read_bytes() for path in files)
    digest = hashlib.sha256(sources).hexdigest()[:16]
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    if not os.access(home if home.exists() else home.parent, os.W_OK):
        home = Path(tempfile.gettempdir())
    return home / "lts-bench" / digest


def kept_machine_code(cache: Path | str, sources: Path) -> Path:
    """Return the folder of a cache in which numba keeps the machine code of a folder of sources.

    Its name depends on where the sources lie, not on what they are.
    """
    locator = importlib.import_module("numba.core.caching").UserProvidedCacheLocator
    return Path(cache, locator.get_suitable_cache_subpath(str(sources / "__init__.py")))


@lru_cache(maxsize=1)
def compiler() -> Any:
    """The compiler, imported on first use; None where there is none or none is wanted."""
    if os.environ.get(VECTORISED):
        return None
    try:
        numba = importlib.import_module("numba")
    except ImportError:
        return None
    numba.extending.overload(select, strict=False)(
        lambda condition, yes, no: lambda condition, yes, no: yes if condition else no
    )
    return numba


def _compiler_with_formulas() -> Any:
    """The compiler, knowing all formulas so far.

    Raises:
        InputError: without one; the evaluation of strategies alone has another way.
    """
    numba = compiler()
    if numba is None:
        raise InputError("must be unset, and numba installed, for what runs compiled only", field=VECTORISED)
    while _WAITING:
        function, inside = _WAITING.pop()
        numba.extending.register_jitable(forceinline=inside)(function)
    return numba


def compiled(function: Function) -> Function:
    """Compile a function with numba; division by zero gives infinity, and nothing is reordered (no fast-math).

    Raises:
        InputError: as the compiler's.
    """
    numba = _compiler_with_formulas()
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(cache_folder())
    try:
        return cast(Function, numba.njit(cache=True, error_model="numpy")(function))
    finally:
        numba.config.CACHE_DIR = before


def inlined(function: Function) -> Function:
    """A part of a compiled function."""
    return cast(Function, _compiler_with_formulas().njit(inline="always", error_model="numpy")(function))


def formula(function: Function) -> Function:
    """A function of numbers for compiled callers, of arrays for all others."""
    _WAITING.append((function, True))
    return function


def scalar(function: Function) -> Function:
    """A function of numbers that is too long to be part of its compiled callers."""
    _WAITING.append((function, False))
    return function


def select(condition: Any, yes: Any, no: Any) -> Any:
    """``yes`` where the condition holds, else ``no``."""
    return np.where(condition, yes, no)


class Kept:
    """A named tuple of arrays with what the compiled side holds of it, from the first use on; a copy holds its own.

    Attributes:
        arrays: the tuple, which nothing may take the place of.
    """

    def __init__(self, arrays: Any) -> None:
        self.arrays = arrays

    def __reduce__(self) -> tuple[type[Kept], tuple[Any]]:
        return Kept, (self.arrays,)

    @cached_property
    def held(self) -> Any:
        """The tuple as compiled functions take it."""
        from lts_bench.cost.held import hold

        return hold(self.arrays)
