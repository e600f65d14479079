"""Names that measured tables use for systems, engines and models."""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import resources

import msgspec

from lts_bench.specs.loading import convert, parse


class Aliases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Names in words (``words``) and what they stand for.

    Attributes:
        systems: family of clusters.
        engines: engine profile by how the software's name begins, the first match counts.
        models: built-in model, where it is not the name itself.
    """

    systems: dict[str, str]
    engines: dict[str, str]
    models: dict[str, str]


@lru_cache(maxsize=1)
def aliases() -> Aliases:
    """The table in ``data/aliases.yaml``."""
    text = resources.files("lts_bench.data").joinpath("aliases.yaml").read_text(encoding="utf-8")
    return convert(parse(text, "aliases.yaml"), Aliases, "aliases.yaml")


def words(name: str) -> str:
    """A name in lower case, its separators and brackets single spaces."""
    return re.sub(r"[\s_()-]+", " ", name.lower()).strip()
