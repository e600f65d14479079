"""The search space of disaggregated serving: the degrees of both pools first, then every operator's split in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from lts_bench.space.decisions import BoolArray, IntArray, Space
from lts_bench.space.degrees import valid_degrees
from lts_bench.space.disaggregated import POOLS, Disaggregated
from lts_bench.space.placement import domain_size
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.failure import InputError
from lts_bench.specs.model import Model

PARTS = 8
"""Pools are so many parts of the cluster, at the finest."""


def pool_sizes(cluster: Cluster) -> tuple[tuple[int, int], ...]:
    """(devices for prefill, devices for decode): whole domains, or parts of the one domain there is.

    Raises:
        InputError: the cluster cannot be divided.
    """
    domain = domain_size(cluster)
    unit = domain if cluster.devices > domain else 1
    units = cluster.devices // unit
    if cluster.scale_up.kind == "torus" or units == 1:
        raise InputError("cannot be divided into pools", field="cluster", value=cluster.name)
    cuts = sorted({round(units * part / PARTS) for part in range(1, PARTS)} - {0, units})
    return tuple((cut * unit, (units - cut) * unit) for cut in cuts)


def pool_degrees(model: Model, cluster: Cluster, devices: int) -> tuple[Degrees, ...]:
    """Degrees that fill a pool: those of a cluster of its size with one tensor axis.

    Experts are whole, or all split over the stage: what engines launch.
    """
    pool = msgspec.structs.replace(cluster, devices=devices)
    return tuple(each for each in valid_degrees(model, pool) if each.tx == 1 and 1 in (each.ep, each.etp))


def pool_pairs(model: Model, cluster: Cluster) -> list[tuple[Degrees, ...]]:
    """Distinct degrees of both pools at all sizes.

    Raises:
        InputError: the cluster cannot be divided, or no degrees are valid.
    """
    sizes = pool_sizes(cluster)
    listed = {devices: pool_degrees(model, cluster, devices) for both in sizes for devices in both}
    pairs = [pair for prefill, decode in sizes for pair in product(listed[prefill], listed[decode])]
    if not pairs:
        raise InputError(f"no valid degrees for two pools of {model.name} on {cluster.name}")
    return list(dict.fromkeys(pairs))


class PoolSpace(Space):
    """Decisions of two pools.

    Decision 0 is an index into pairs of degrees; the operators of the prefill pool follow, then those of the decode
    pool. As in any space, what an operator may be depends on decision 0 alone.

    Attributes:
        parts: the spaces of the prefill and of the decode pool, by themselves.
        pairs: (n, 2) which degrees of each part.
        degrees: (n, 14) columns of the prefill pool's degrees, then of the decode pool's.
    """

    def __init__(self, parts: tuple[Space, Space], pairs: IntArray) -> None:
        self.parts, self.pairs = parts, pairs
        operators = [
            replace(operator, key=f"{pool}.{operator.key}")
            for pool, part in zip(POOLS, parts, strict=True)
            for operator in part.operators
        ]
        degrees = np.hstack([part.degrees[pairs[:, at]] for at, part in enumerate(parts)])
        rows, masks = _joined_masks(parts)
        mask_rows = rows[tuple(part.mask_rows[pairs[:, at]] for at, part in enumerate(parts))]
        super().__init__(operators, degrees, parts[0].layers, mask_rows, masks)

    @classmethod
    def of(cls, model: Model, cluster: Cluster) -> PoolSpace:
        """The space of a model on a cluster.

        Raises:
            InputError: the cluster cannot be divided, or no degrees are valid.
        """
        return cls.paired(model, cluster, pool_pairs(model, cluster))

    @classmethod
    def paired(cls, model: Model, cluster: Cluster, pairs: Sequence[tuple[Degrees, ...]]) -> PoolSpace:
        """The space of some pairs of degrees."""
        listed = [tuple(dict.fromkeys(each)) for each in zip(*pairs, strict=True)]
        places = [{degrees: place for place, degrees in enumerate(each)} for each in listed]
        rows = [[places[at][each] for at, each in enumerate(pair)] for pair in pairs]
        prefill, decode = (Space.build(model, cluster, each) for each in listed)
        return cls((prefill, decode), np.array(rows, dtype=np.int64))

    @cached_property
    def choices(self) -> tuple[tuple[str, ...], ...]:
        """Labels of every decision's choices."""
        prefill, decode = (part.choices for part in self.parts)
        pairs = self.pairs.tolist()
        labels = tuple(f"prefill {prefill[0][one]} / decode {decode[0][other]}" for one, other in pairs)
        return (labels, *prefill[1:], *decode[1:])

    def split(self, vectors: IntArray) -> tuple[IntArray, IntArray]:
        """The vectors (n, d) as vectors of either part; a pair that does not exist is -1 in both."""
        pair = vectors[:, 0]
        exists = (pair >= 0) & (pair < len(self.pairs))
        degrees = np.where(exists[:, None], self.pairs[np.where(exists, pair, 0)], -1)
        middle = len(self.parts[0].names)
        prefill = np.concatenate([degrees[:, :1], vectors[:, 1:middle]], axis=1)
        return prefill, np.concatenate([degrees[:, 1:], vectors[:, middle:]], axis=1)

    def canonical(self, vectors: ArrayLike) -> IntArray:
        """The same strategies with the letters of axes of size 1 written R; entries must be in range."""
        given = np.array(vectors, dtype=np.int64, ndmin=2)
        parts = [part.canonical(own)[:, 1:] for part, own in zip(self.parts, self.split(given), strict=True)]
        return np.concatenate([given[:, :1], *parts], axis=1)

    def decode(self, vector: ArrayLike) -> Disaggregated:  # type: ignore[override]
        """The strategy of one vector.

        Raises:
            InputError: if an entry is out of range.
        """
        given = np.array(vector, dtype=np.int64).reshape(1, -1)
        if given.shape[1] != len(self.names) or not self.in_range(given)[0]:
            raise InputError("vector out of range", value=given[0].tolist(), legal=[f"0 <= v < {self.sizes.tolist()}"])
        prefill, decode = (part.decode(own[0]) for part, own in zip(self.parts, self.split(given), strict=True))
        return Disaggregated(prefill, decode)

    def encode(self, strategy: Any) -> IntArray:
        """The vector of a strategy.

        Raises:
            InputError: if the strategy is not in the space.
        """
        if not isinstance(strategy, Disaggregated):
            raise InputError("needs a part for each pool", field="strategy", legal=list(POOLS))
        prefill, decode = self.parts[0].encode(strategy.prefill), self.parts[1].encode(strategy.decode)
        found = np.flatnonzero((self.pairs == (prefill[0], decode[0])).all(axis=1))
        if not len(found):
            raise InputError("the pools are not in the task's space", field="degrees", value=strategy.degrees.label())
        return np.concatenate([found[:1], prefill[1:], decode[1:]])

    def to_dict(self) -> dict[str, Any]:
        """Plain data that ``from_dict`` reads back."""
        return {"parts": [part.to_dict() for part in self.parts], "pairs": self.pairs.tolist()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PoolSpace:
        """Read what ``to_dict`` wrote."""
        prefill, decode = (Space.from_dict(part) for part in data["parts"])
        return cls((prefill, decode), np.array(data["pairs"], dtype=np.int64))


def read_space(data: Mapping[str, Any]) -> Space:
    """Read what ``to_dict`` of any space wrote."""
    return PoolSpace.from_dict(data) if "parts" in data else Space.from_dict(data)


def _joined_masks(parts: Sequence[Space]) -> tuple[IntArray, BoolArray]:
    """((rows of the first part, rows of the second) row, (rows, d, most choices)) of every two masks together."""
    prefill, decode = (part.masks for part in parts)
    return np.arange(len(prefill) * len(decode)).reshape(len(prefill), len(decode)), np.array(
        [np.concatenate([one, other[1:]]) for one in prefill for other in decode]
    )
