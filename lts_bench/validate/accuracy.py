"""The accuracy page and its plots: made from a folder of measured tables, written or compared."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

from lts_bench.results.store import write_output
from lts_bench.validate.accuracy_page import accuracy_page
from lts_bench.validate.accuracy_plots import Panels, scatter
from lts_bench.validate.answers import Answered, Pair, answer_folder
from lts_bench.validate.figures import KERNELS, by, cell, of_kind
from lts_bench.validate.held_out import held_out


class Accuracy:
    """What a folder of measurements tells.

    Attributes:
        answers: all its tables.
    """

    def __init__(self, folder: Path) -> None:
        self.models = folder / "models"
        self.answers = answer_folder(folder)

    def page(self, plots: str) -> str:
        """The page as Markdown; ``plots`` is the folder of the plots as the page names it."""
        (serving,) = of_kind(self.answers, "serving")
        unseen = {
            "tpot_ms": held_out(serving.table, self.models, "host"),
            "ttft_ms": held_out(serving.table, self.models, "requests"),
        }
        return accuracy_page(self.answers, self.models, unseen, plots)

    def plots(self) -> dict[str, bytes]:
        """The plots by file name."""
        return {f"{name}.png": scatter(panels) for name, panels in _panels(self.answers).items()}


def _panels(answers: Sequence[Answered]) -> dict[str, Panels]:
    def pairs(kind: str, column: str) -> list[Pair]:
        return [pair for table in of_kind(answers, kind) for pair in table.pairs(column)]

    model = cell("config_name")
    return {
        "kernels": {"time, µs": by(pairs("kernels", "latency_us"), lambda pair: KERNELS[pair.group[1]])},
        "collectives": {"time, µs": by(pairs("collectives", "latency_us"), cell("system"))},
        "serving": {
            "TPOT, ms": by(pairs("serving", "tpot_ms"), model),
            "TTFT, ms": by(pairs("serving", "ttft_ms"), model),
        },
        "performance": {
            "maximum throughput, tokens/s": by(pairs("throughput", "out_tok_s"), cell("model")),
            "static latency, s": by(pairs("static", "latency_s"), cell("model")),
        },
    }


def write_accuracy(folder: Path, page: Path) -> None:
    """Write the page, and the plots into a folder of its name beside it.

    Raises:
        InputError: if a table is bad, or something cannot be written.
    """
    accuracy = Accuracy(folder)
    plots = page.with_suffix("")
    text, images = accuracy.page(plots.name), accuracy.plots()
    for name, image in images.items():
        write_output(plots / name, image)
    write_output(page, text)


def differences(folder: Path, page: Path) -> list[str]:
    """Lines in which a page differs from what the folder gives; its plots are not compared.

    Raises:
        InputError: if a table is bad.
    """
    if not page.is_file():
        return [f"{page}: is missing"]
    new = Accuracy(folder).page(page.with_suffix("").name)
    old = page.read_bytes().decode(errors="replace")
    return list(difflib.unified_diff(old.split("\n"), new.split("\n"), str(page), str(folder), lineterm="", n=0))
