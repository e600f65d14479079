"""What a calibration tells: errors before and after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lts_bench.calibrate.kernels import Refit
from lts_bench.console import print_rows


def refits_document(refits: Sequence[Refit]) -> dict[str, Any]:
    """The JSON document: for each kernel its constants, and errors before, after and on shapes held out."""
    return {
        "kernels": {
            refit.kernel: {
                "rows": refit.rows,
                "constants": dict(refit.constants),
                "old_errors": dict(refit.old),
                "new_errors": dict(refit.new),
                "held_out_errors": dict(refit.held_out) if refit.held_out else None,
            }
            for refit in refits
        }
    }


def print_refits(document: Mapping[str, Any]) -> None:
    """Print median / 90th percentile of the absolute errors of every kernel."""
    print_rows(
        [
            {
                "kernel": kernel,
                "rows": each["rows"],
                "old median / p90 %": _errors(each["old_errors"]),
                "new": _errors(each["new_errors"]),
                "held out": _errors(each["held_out_errors"]),
            }
            for kernel, each in document["kernels"].items()
        ]
    )


def _errors(errors: Mapping[str, Any] | None) -> str | None:
    return f"{errors['median_error_percent']:.1f} / {errors['p90_error_percent']:.1f}" if errors else None
