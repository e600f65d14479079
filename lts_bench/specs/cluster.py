"""A cluster: so many of one chip, in scale-up domains joined by a scale-out network."""

from __future__ import annotations

import math
import re
from pathlib import Path

import msgspec

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.chip import Chip, load_chip, sparse_peaks
from lts_bench.specs.collectives import Collectives, load_collectives
from lts_bench.specs.failure import InputError, did_you_mean
from lts_bench.specs.loading import Count, RuleError, Text, convert, read_yaml
from lts_bench.specs.topology import ScaleOut, ScaleUp

_GROUP_KEYS = ("groups", "device_groups", "chips")


class Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Equal devices and the networks between them.

    Attributes:
        devices: NPUs; a part of one domain, or whole domains.
        collectives: what the communication library reaches in a domain.
        scale_out: None where there is one domain only.
    """

    name: Text
    chip: Chip
    devices: Count
    scale_up: ScaleUp
    collectives: Collectives
    scale_out: ScaleOut | None = None

    def __post_init__(self) -> None:
        size = self.scale_up.size
        torus = self.scale_up.kind == "torus"
        if self.devices % size and (torus or self.devices > size):
            whole = max(self.devices // size, 1)
            rule = f"must fill whole domains of {size} devices{'' if torus else ', or be a part of one'}"
            raise RuleError(rule, field="devices", value=self.devices, legal=(whole * size, (whole + 1) * size))
        if self.devices > size and self.scale_out is None:
            raise RuleError(f"required where there are more than {size} devices", field="scale_out")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is legal in the cluster but looks wrong."""
        return tuple(sparse_peaks(self.chip))


class Family(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Built-in clusters of one kind.

    Attributes:
        slices: names take a shape within the torus ``scale_up.shape`` instead of a number of devices.
    """

    family: Text
    chip: Text
    scale_up: ScaleUp
    collectives: Text
    scale_out: ScaleOut | None = None
    slices: bool = False

    @property
    def pattern(self) -> str:
        """How its clusters are named, e.g. ``h100x<N>`` or ``tpu-v4-XxYxZ``."""
        if self.slices:
            return f"{self.family}-{'x'.join('XYZ'[: len(self.scale_up.shape or ())])}"
        return f"{self.family}-<N>" if "-" in self.family or self.family.endswith("x") else f"{self.family}x<N>"

    def cluster(self, name: str, numbers: tuple[int, ...]) -> Cluster:
        """The cluster of so many devices, or the slice of such a shape."""
        scale_up = self._slice(name, numbers) if self.slices else self.scale_up
        if len(numbers) != 1 and not self.slices:
            raise InputError("a number of devices is expected", field="cluster", value=name, legal=(self.pattern,))
        data = {
            "name": name,
            "chip": msgspec.to_builtins(load_chip(self.chip)),
            "devices": math.prod(numbers),
            "scale_up": msgspec.to_builtins(scale_up),
            "collectives": msgspec.to_builtins(load_collectives(self.collectives)),
            "scale_out": msgspec.to_builtins(self.scale_out),
        }
        return convert(data, Cluster, f"cluster {name}")

    def _slice(self, name: str, shape: tuple[int, ...]) -> ScaleUp:
        whole = self.scale_up.shape or ()
        fits = len(shape) == len(whole) and all(a <= b for a, b in zip(sorted(shape), sorted(whole), strict=True))
        if not fits:
            limit = f"{self.pattern} up to {'x'.join(map(str, whole))}"
            raise InputError("the slice must fit into a pod", field="cluster", value=name, legal=(limit,))
        return msgspec.structs.replace(self.scale_up, shape=shape, size=math.prod(shape))


_SHELF = Shelf("cluster", Family, "lts_bench.data", "clusters")


def list_clusters() -> list[str]:
    """How the built-in clusters are named, e.g. ``h100x<N>``."""
    return [_SHELF.load(name).pattern for name in _SHELF.names()]


def load_cluster(ref: str | Path) -> Cluster:
    """Load a built-in cluster by name (``h100x256``, ``tpu-v5p-8x8x16``) or a YAML file by path."""
    if isinstance(ref, Path) or ref.endswith((".yaml", ".yml")):
        return _load_file(Path(ref))
    families = _SHELF.names()
    parts = re.fullmatch(r"(.+?)[x-]([1-9]\d{0,8}(?:x[1-9]\d{0,8})*)", ref)
    family = parts[1] if parts else ref
    if parts is None or family not in families:
        known = family in families
        rule = "the number of devices is missing" if known else f"unknown cluster{did_you_mean(family, families)}"
        raise InputError(rule, field="cluster", value=ref, legal=[*list_clusters(), "a .yaml file"])
    return _SHELF.load(family).cluster(ref, tuple(map(int, parts[2].split("x"))))


def _load_file(path: Path) -> Cluster:
    data = read_yaml(path)
    unlike = [key for key in _GROUP_KEYS if key in data] + ["chip"] * isinstance(data.get("chip"), list)
    if unlike:
        rule = "clusters of unlike devices are not supported: give one chip and the number of devices"
        raise InputError(rule, source=str(path), field=unlike[0])
    for key, load in (("chip", load_chip), ("collectives", load_collectives)):
        if isinstance(data.get(key), str):
            data[key] = msgspec.to_builtins(load(data[key], path))
    return convert({"name": path.stem, **data}, Cluster, str(path))
