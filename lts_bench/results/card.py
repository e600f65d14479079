"""An agent's card: what the people who submit it declare."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from lts_bench.results.schema import Row
from lts_bench.specs.loading import NonNegative, RuleError, Text, convert, read_yaml

CARD_FILE = "card.yaml"
HOUSE = {"authors": ["the authors of lts-bench"], "licence": "Apache-2.0"}
"""What is known of built-in agents."""

Evaluations = Annotated[int, msgspec.Meta(ge=0)]


class Training(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the agent learned from before its runs: names of tasks or of whole suites."""

    tasks: tuple[Text, ...] = ()
    evaluations: Evaluations = 0
    cpu_hours: NonNegative = 0.0


class Tuning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What its hyperparameters were chosen on, and how."""

    evaluations: Evaluations
    tasks: tuple[Text, ...] = ()
    note: str = ""


class Hyperparameter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The value in the runs, and all values, or both ends of a range, that were tried."""

    value: Any
    tried: tuple[Any, ...] = ()


class Card(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The declaration of one version of an agent.

    Attributes:
        source: ``FILE.py:CLASS``, a file beside the card; ``package.module:Class`` of a built-in agent.
        package: the distribution and version that holds the agent where one file does not.
        suites: built-in suites that the rows cover wholly.
    """

    agent: Text
    version: Text
    track: Literal["search", "heuristic", "pretrained", "model_based", "oracle"]
    authors: tuple[Text, ...]
    licence: Text
    source: Text
    suites: tuple[Text, ...]
    tuning: Tuning
    training: Training = Training()
    hyperparameters: dict[str, Hyperparameter] = {}
    package: str | None = None

    def __post_init__(self) -> None:
        """Hold the card to what its track asks for."""
        if not self.authors:
            raise RuleError("must not be empty", field="authors")
        trained = bool(self.training.tasks and self.training.evaluations)
        if (self.track == "pretrained") != trained:
            rule = "tasks and evaluations belong to agents of the track pretrained, and to all of these"
            raise RuleError(rule, field="training")

    @property
    def label(self) -> str:
        """How the agent is called."""
        return f"{self.agent}@{self.version}"


def read_card(path: Path) -> Card:
    """Read a card.

    Raises:
        InputError: it cannot be read, or a field is missing, unknown or wrong.
    """
    return convert(read_yaml(path), Card, str(path))


def encode_card(card: Card) -> str:
    """Return the card as YAML, in the order of its fields."""
    return _yaml({name: value for name, value in msgspec.to_builtins(card).items() if value is not None})


def draft(rows: Iterable[Row], source: str, *, built_in: bool) -> str:
    """Return a card with what the rows tell; what only the authors know is left empty."""
    row = next(iter(rows))
    blank: dict[str, Any] = {"authors": [], "licence": None}
    document = {
        "agent": row.agent,
        "version": row.version,
        "track": row.track,
        **(HOUSE if built_in else blank),
        "source": source,
        "suites": [],
        "tuning": {"evaluations": None, "tasks": []},
        "hyperparameters": {name: {"value": value, "tried": []} for name, value in sorted(row.parameters.items())},
    }
    return _yaml(document)


def _yaml(document: dict[str, Any]) -> str:
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
