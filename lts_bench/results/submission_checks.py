"""``lts-bench submit --check``: what a submission's folder must be like, found without running anything of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from lts_bench.registry import AgentInfo, describe_agent, is_built_in, source_digest
from lts_bench.results.card import CARD_FILE, Card, read_card
from lts_bench.results.checks import L0, Problem, Problems, Record, records
from lts_bench.results.grids import Grid
from lts_bench.results.provenance import lock_digest
from lts_bench.results.schema import Row, encode_row
from lts_bench.results.store import documents
from lts_bench.results.submission import ENVIRONMENT_FILE, MANIFEST_FILE, ROWS_FILE, SAME_CELLS
from lts_bench.results.verification import verification_document
from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import read_yaml
from lts_bench.specs.suite import list_suites, load_suite

LARGEST_SUITE_BYTES = 1_000_000
"""Of an agent's rows."""


@dataclass
class Submission:
    """A folder, read as far as it can be: what is broken is empty here and told by `check_card` or `check_rows`."""

    folder: Path
    broken: list[InputError] = field(default_factory=list)

    @cached_property
    def card(self) -> Card | None:
        """The card."""
        with self._noted():
            return read_card(self.folder / CARD_FILE)
        return None

    @cached_property
    def rows(self) -> list[Row]:
        """The rows that are well-formed."""
        found: list[Row] = []
        notes: list[str] = []
        path = self.folder / ROWS_FILE
        for document in documents(path, notes) if path.is_file() else ():
            with self._noted():
                found.append(document.row())
        self.broken += [InputError(note) for note in notes]
        return found

    @cached_property
    def agent(self) -> AgentInfo | None:
        """What the agent's source says, read and not run."""
        if self.card is None:
            return None
        file, _, name = self.card.source.rpartition(":")
        with self._noted():
            if file.endswith(".py") and Path(file).name == file:
                return describe_agent(f"{self.folder / file}:{name}")
            info = describe_agent(self.card.agent)
            if not is_built_in(info) or info.origin != self.card.source:
                rule = "must be a file beside the card, or that of the built-in agent"
                raise InputError(rule, source=CARD_FILE, field="source", value=self.card.source)
            return info
        return None

    @cached_property
    def grids(self) -> list[Grid]:
        """The suites that the card names and that there are."""
        names = self.card.suites if self.card else ()
        return [Grid.of(load_suite(name)) for name in names if name in list_suites()]

    @contextmanager
    def _noted(self) -> Iterator[None]:
        try:
            yield
        except InputError as error:
            self.broken.append(error)


def check_files(submission: Submission) -> Problems:
    """The manifest names every file, with its digest; there is nothing beside card, rows, environment and source."""
    folder = submission.folder
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    manifest = folder / MANIFEST_FILE
    text = manifest.read_text(encoding="utf-8", errors="replace") if manifest.is_file() else ""
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in text.splitlines())}
    expected = {CARD_FILE, ROWS_FILE, ENVIRONMENT_FILE}
    if submission.agent and not is_built_in(submission.agent) and submission.agent.path:
        expected.add(Path(submission.agent.path).name)
    for name in sorted(expected | there | listed.keys()):
        if name == MANIFEST_FILE:
            continue
        if name not in there:
            yield Problem(name, "is missing")
        elif name not in expected or (folder / name).is_symlink():
            yield Problem(name, "does not belong to a submission")
        elif hashlib.sha256((folder / name).read_bytes()).hexdigest() != listed.get(name):
            yield Problem(name, f"is not what {MANIFEST_FILE} says")


def check_readable(submission: Submission) -> Problems:
    """Card, rows and source can be read."""
    _ = submission.card, submission.rows, submission.agent
    for error in submission.broken:
        yield Problem(error.field or "", str(error))


def check_rows(submission: Submission) -> Problems:
    """Every row is well-formed by itself, and none is there twice."""
    seen: set[str] = set()
    for row in submission.rows:
        for check in L0.values():
            for name, message in check(row):
                yield Problem(f"{row.task} seed {row.seed}: {name}", message)
        if row.run_id in seen:
            yield Problem(f"{row.task} seed {row.seed}", "is there twice")
        seen.add(row.run_id)


def check_identity(submission: Submission) -> Problems:
    """Folder, card, rows and source tell one agent, version, track and set of hyperparameters."""
    card = submission.card
    if card is None:
        return
    if submission.folder.resolve().name != card.label:
        yield Problem("folder", f"must be called {card.label}")
    parameters = {name: each.value for name, each in card.hyperparameters.items()}
    for row in submission.rows:
        found = (row.agent, row.version, row.track, row.parameters)
        if found != (card.agent, card.version, card.track, parameters):
            yield Problem(f"{row.task} seed {row.seed}", "agent, version, track or parameters are not the card's")
    if agent := submission.agent:
        for name, told, declared in (("version", agent.version, card.version), ("track", agent.track, card.track)):
            if told != declared:
                yield Problem(name, f"the source says {told!r}, the card {declared!r}")


def check_source(submission: Submission) -> Problems:
    """The source is what ran: its digest is that of all rows, or of some that were run again after a change."""
    if submission.agent is None:
        return
    digest = source_digest(submission.agent)
    same = sum(row.provenance.agent_digest == digest for row in submission.rows)
    if same < min(SAME_CELLS, len(submission.rows)):
        yield Problem("source", f"{same} rows ran with it, at least {SAME_CELLS} must have")


def check_complete(submission: Submission) -> Problems:
    """The suites that the card names are built in; each of their cells is there once, and no row beside them."""
    card, rows = submission.card, submission.rows
    for name in sorted({*(card.suites if card else ())} - {*list_suites()}):
        yield Problem("suites", f"{name} is no built-in suite")
    if card and not card.suites:
        yield Problem("suites", "names none")
    for grid in submission.grids:
        cells = [(row.task, row.seed) for row in grid.rows(rows)]
        for task in grid.tasks:
            for seed in grid.seeds:
                if (count := cells.count((task, seed))) != 1:
                    yield Problem(grid.name, f"{task} seed {seed} is there {count} times")
    for row in rows:
        if not any(grid.rows([row]) for grid in submission.grids):
            yield Problem(f"{row.task} seed {row.seed}", "belongs to no suite of the card")


def check_size(submission: Submission) -> Problems:
    """An agent's rows of one suite take at most so many bytes."""
    for grid in submission.grids:
        size = sum(len(encode_row(row)) for row in grid.rows(submission.rows))
        if size > LARGEST_SUITE_BYTES:
            yield Problem(grid.name, f"takes {size} bytes, at most {LARGEST_SUITE_BYTES}")


def check_environment(submission: Submission) -> Problems:
    """The environment names the packages that its digest is of."""
    try:
        told = read_yaml(submission.folder / ENVIRONMENT_FILE)
    except InputError as error:
        yield Problem(ENVIRONMENT_FILE, str(error))
        return
    packages = told.get("packages")
    if not isinstance(packages, list) or told.get("lock_digest") != lock_digest([str(each) for each in packages]):
        yield Problem("lock_digest", "is not that of the packages")


CHECKS: Mapping[str, Callable[[Submission], Problems]] = {
    "readable": check_readable,
    "files": check_files,
    "rows": check_rows,
    "identity": check_identity,
    "source": check_source,
    "complete": check_complete,
    "size": check_size,
    "environment": check_environment,
}
"""All run, all are told."""


def submission_document(folder: Path) -> dict[str, Any]:
    """What ``lts-bench submit --check`` answers, in the form of ``verify``.

    Raises:
        InputError: there is no such folder.
    """
    if not folder.is_dir():
        raise InputError("no such folder", source=str(folder))
    submission = Submission(folder)
    found: list[Record] = []
    for name, check in CHECKS.items():
        found += records("L0", name, str(folder), check(submission))
    return verification_document(found)
