"""Leaves out tests of sandboxes where there are none."""

from __future__ import annotations

import pytest

from lts_bench.harness.sealed import bubblewrap
from lts_bench.specs.failure import InputError


def _reason() -> str:
    try:
        bubblewrap()
    except InputError as error:
        return str(error)
    return ""


needs_bubblewrap = pytest.mark.skipif(bool(reason := _reason()), reason=reason or "there is bubblewrap")
