"""``lts-bench submit``: one folder an agent and version, ready for a pull request.

The folder holds the card, the rows of whole suites, the agent's file, the environment and a manifest. Submitting again
adds suites to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.registry import AgentInfo, describe_agent, is_built_in, source_digest
from lts_bench.results.card import CARD_FILE, Card, draft, encode_card, read_card
from lts_bench.results.grids import Grid
from lts_bench.results.provenance import environment
from lts_bench.results.schema import Row, encode_row
from lts_bench.results.store import read_store, write_output
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import list_suites, load_suite

ROWS_FILE = "runs.jsonl"
ENVIRONMENT_FILE = "environment.yaml"
MANIFEST_FILE = "MANIFEST.sha256"
SAME_CELLS = 3
"""Cells with bit-equal outcomes that show that a changed source is still the same version of an agent."""


class Request(msgspec.Struct, frozen=True):
    """What to submit: rows of a directory; the agents (all, where none is named), their card, where folders go."""

    rows: Path
    out: Path
    agents: tuple[str, ...] = ()
    card: Path | None = None


class Plan(NamedTuple):
    """An agent, its rows and the suites that they cover wholly."""

    info: AgentInfo
    rows: list[Row]
    grids: list[Grid]

    def folder(self, request: Request) -> Path:
        """Return where the submission goes."""
        return request.out / f"{self.info.name}@{self.info.version}"

    @property
    def source(self) -> str:
        """The agent's source as its card names it: a built-in module, or a file beside the card."""
        module, _, name = self.info.origin.rpartition(":")
        return f"{module if is_built_in(self.info) else Path(self.info.path or '').name}:{name}"


def submit(request: Request) -> dict[str, Any]:
    """Write a folder for each agent.

    Raises:
        InputError: no suite is whole, a card is missing or wrong, an agent's file is unknown.
    """
    stored = read_store([request.rows])
    rows = [row for row in stored.rows.values() if row.provenance.cost_model == COST_MODEL_VERSION]
    grids, notes = _official(stored.grids)
    infos = [describe_agent(ref) for ref in request.agents or sorted({row.agent for row in rows})]
    if request.card and len(infos) != 1:
        raise InputError("a card is of one agent: name it", field="--agent", value=[info.name for info in infos])
    plans = []
    for info in infos:
        mine = [row for row in rows if (row.agent, row.version) == (info.name, info.version)]
        whole, lines = _whole(info, mine, grids)
        notes += lines
        if whole:
            plans.append(Plan(info, [row for row in mine if any(grid.rows([row]) for grid in whole)], whole))
    if not plans:
        raise InputError(f"holds no whole suite of an agent: {'; '.join(notes) or 'no rows'}", source=str(request.rows))
    _require_cards(plans, request)
    return {"submissions": [_write(plan, request) for plan in plans], "notes": notes}


def _official(grids: Mapping[str, Grid]) -> tuple[list[Grid], list[str]]:
    """Return the grids that are those of built-in suites, and a line for each other one."""
    found = [grid for name, grid in grids.items() if name in list_suites() and grid == Grid.of(load_suite(name))]
    others = sorted(grids.keys() - {grid.name for grid in found})
    return found, [f"{name}: not the tasks, seeds and budget of a built-in suite" for name in others]


def _whole(info: AgentInfo, rows: Sequence[Row], grids: Iterable[Grid]) -> tuple[list[Grid], list[str]]:
    """Return the grids of which an agent has every cell, and a line for each of which it has some."""
    whole, lines = [], []
    for grid in grids:
        there, wanted = len({(row.task, row.seed) for row in grid.rows(rows)}), len(grid.tasks) * len(grid.seeds)
        if there == wanted:
            whole.append(grid)
        elif there:
            lines.append(f"{grid.name}: {info.name}@{info.version} has {there} of {wanted} cells")
    return whole, lines


def _require_cards(plans: Iterable[Plan], request: Request) -> None:
    """Leave a draft for the authors wherever there is no card.

    Raises:
        InputError: there are drafts to complete.
    """
    drafts = []
    for plan in plans:
        path = plan.folder(request) / CARD_FILE
        if not (request.card or path).is_file():
            write_output(path, draft(plan.rows, plan.source, built_in=is_built_in(plan.info)))
            drafts.append(str(path))
    if drafts:
        raise InputError("a draft of the card: complete it, then submit again", source=", ".join(drafts))


def _write(plan: Plan, request: Request) -> str:
    (info, rows, grids), folder = plan, plan.folder(request)
    stored = folder / ROWS_FILE
    before = list(read_store([stored]).rows.values()) if stored.is_file() else []
    if before:
        # Raises where a cell has another outcome than the one that is there.
        read_store([request.rows, stored])
        _require_same_agent(before, rows, info)
    merged = {row.run_id: row for row in (*before, *rows) if row.provenance.cost_model == COST_MODEL_VERSION}
    card = _card(plan, request.card or folder / CARD_FILE)
    suites = tuple(sorted({*card.suites, *(grid.name for grid in grids)}))
    files = {
        CARD_FILE: encode_card(msgspec.structs.replace(card, suites=suites)).encode(),
        ROWS_FILE: encode_rows(merged.values()),
        ENVIRONMENT_FILE: yaml.safe_dump(environment(), sort_keys=False).encode(),
    }
    if not is_built_in(info) and info.path is not None:
        files[Path(info.path).name] = Path(info.path).read_bytes()
    for name, data in files.items():
        write_output(folder / name, data)
    write_output(folder / MANIFEST_FILE, manifest(files))
    return str(folder)


def _require_same_agent(before: Sequence[Row], rows: Sequence[Row], info: AgentInfo) -> None:
    """A source that changes under one version must have given the same outcomes again."""
    digest = source_digest(info)
    if digest in {row.provenance.agent_digest for row in before}:
        return
    known = {row.run_id for row in before}
    again = sum(row.run_id in known and row.provenance.agent_digest == digest for row in rows)
    if again < SAME_CELLS:
        rule = f"its source has changed: {SAME_CELLS} stored cells must have been run again, or change the version"
        raise InputError(rule, field="agent", value=f"{info.name}@{info.version}")


def _card(plan: Plan, path: Path) -> Card:
    card = read_card(path)
    for field in ("agent", "version", "track"):
        if getattr(card, field) != (found := getattr(plan.rows[0], field)):
            raise InputError(f"is not that of the rows, {found}", source=str(path), field=field)
    return msgspec.structs.replace(card, source=plan.source)


def encode_rows(rows: Iterable[Row]) -> bytes:
    """Return rows as lines of JSON, by task, budget and seed."""
    return b"".join(map(encode_row, sorted(rows, key=lambda row: (row.task, row.budget, row.seed))))


def manifest(files: Mapping[str, bytes]) -> str:
    """Return a line for each file as ``sha256sum`` writes and checks it."""
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in sorted(files.items()))
