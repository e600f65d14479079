"""Where built-in specs lie: one YAML file each in a folder of a package; a path to a user's own file works as well."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Generic, TypeVar

from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.loading import convert, parse, read_yaml

T = TypeVar("T")


@dataclass(frozen=True)
class Shelf(Generic[T]):
    """The built-in specs of one kind.

    Attributes:
        kind: the word for one of them in messages.
        type: the spec's class.
        package: the package that holds the files.
        folder: their folder in it, empty for the package itself.
    """

    kind: str
    type: type[T]
    package: str
    folder: str = ""

    def names(self) -> list[str]:
        """Names of all, sorted."""
        entries = resources.files(self.package).joinpath(self.folder).iterdir()
        return sorted(entry.name.removesuffix(".yaml") for entry in entries if entry.name.endswith(".yaml"))

    def load(self, ref: str | Path, named_in: Path | None = None) -> T:
        """Load a built-in spec by name, or a YAML file by path (relative to the file that names it, if any)."""
        if isinstance(ref, Path) or ref.endswith((".yaml", ".yml")):
            path = named_in.parent / ref if named_in else Path(ref)
            return convert(read_yaml(path), self.type, str(path))
        names = self.names()
        if ref not in names:
            rule = f"unknown {self.kind}{did_you_mean(ref, names)}"
            source = str(named_in) if named_in else None
            raise InputError(rule, source=source, field=self.kind, value=ref, legal=[*names, "a .yaml file"])
        file = resources.files(self.package).joinpath(self.folder).joinpath(f"{ref}.yaml")
        inside = f"{self.folder or self.package}/{ref}.yaml"
        return convert(parse(file.read_text(encoding="utf-8"), inside), self.type, inside)
