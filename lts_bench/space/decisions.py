"""The search space as vectors of decisions: the degrees' index first, then every operator's split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lts_bench.space.degrees import valid_degrees
from lts_bench.space.operators import Operator
from lts_bench.space.rules import OperatorRules, axis_sizes
from lts_bench.space.strategy import Degrees, Strategy, even_stages
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.failure import InputError
from lts_bench.specs.model import Model

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]


class Space:
    """Finite decisions with masks of legality.

    Decision 0 is an index into the valid degrees; every other one is an index into an operator's choices and its
    legality depends on the degrees alone. On an axis of size 1 all letters mean the same: the mask admits only the
    canonical one, R, and any other is read as it.

    Attributes:
        operators: the operator of each decision but the first.
        degrees: (n, 7) columns replicas, pp, dp, tx, ty, ep, etp.
        layers: layers of the model, which pipeline stages share.
        mask_rows: (n,) which row of ``masks`` holds the degrees' masks.
        masks: (rows, d, most choices) legal and canonical choices.
    """

    def __init__(
        self,
        operators: Sequence[Operator],
        degrees: IntArray,
        layers: int,
        mask_rows: IntArray,
        masks: BoolArray,
    ) -> None:
        self.operators = tuple(operators)
        self.degrees = degrees
        self.layers = layers
        self.mask_rows = mask_rows
        self.masks = masks
        self.names = ("degrees", *(operator.key for operator in self.operators))
        self.sizes = np.array([len(degrees), *(len(each.choices) for each in self.operators)], dtype=np.int64)

    @classmethod
    def build(cls, model: Model, cluster: Cluster, degrees: Sequence[Degrees] | None = None) -> Space:
        """The space of a model on a cluster; ``degrees`` restricts it to some.

        Raises:
            InputError: if no degrees are valid.
        """
        rules = OperatorRules(model)
        listed = valid_degrees(model, cluster) if degrees is None else tuple(degrees)
        if not listed:
            raise InputError(f"no valid degrees for {model.name} on {cluster.name}")
        rows, masks = _masks(rules, listed)
        columns = np.array([(d.replicas, d.pp, d.dp, d.tx, d.ty, d.ep, d.etp) for d in listed], dtype=np.int64)
        return cls(rules.operators, columns, len(model.layers), rows, masks)

    @cached_property
    def choices(self) -> tuple[tuple[str, ...], ...]:
        """Labels of every decision's choices."""
        labels = tuple(Degrees(*map(int, row)).label() for row in self.degrees)
        return (labels, *(tuple(",".join(choice) for choice in each.choices) for each in self.operators))

    @property
    def log10_size(self) -> float:
        """Decimal logarithm of the number of legal, distinct vectors."""
        counts = self.masks[:, 1:].sum(axis=2).astype(float)
        return float(np.log10(np.exp(np.log(counts).sum(axis=1)[self.mask_rows]).sum()))

    def mask(self, degrees_index: int) -> BoolArray:
        """(d, most choices) legal and canonical choices under the given degrees; row 0 is of the degrees themselves."""
        mask = np.zeros((len(self.names), max(int(self.sizes.max()), self.masks.shape[2])), dtype=np.bool_)
        mask[:, : self.masks.shape[2]] = self.masks[self.mask_rows[degrees_index]]
        mask[0] = np.arange(mask.shape[1]) < self.sizes[0]
        return mask

    def in_range(self, vectors: IntArray) -> BoolArray:
        """(n,) whether every entry is an index of its decision."""
        return np.asarray(((vectors >= 0) & (vectors < self.sizes)).all(axis=1), dtype=np.bool_)

    def canonical(self, vectors: ArrayLike) -> IntArray:
        """The same strategies with the letters of axes of size 1 written R; entries must be in range."""
        vectors = np.array(vectors, dtype=np.int64, ndmin=2)
        idle_x, idle_y, idle_etp = self._idle_axes[:, vectors[:, 0], None]
        letters, whole, pairs = self._letters
        x, y = np.divmod(vectors[:, 1:], letters)
        of_pairs = np.where(idle_x, whole, x) * letters + np.where(idle_y, whole, y)
        vectors[:, 1:] = np.where(pairs, of_pairs, np.where(idle_etp, whole, vectors[:, 1:]))
        return vectors

    @cached_property
    def _idle_axes(self) -> BoolArray:
        """(3, n) whether tx, ty and etp of the degrees are 1."""
        idle: BoolArray = self.degrees[:, [3, 4, 6]].T == 1
        return idle

    @cached_property
    def _letters(self) -> tuple[IntArray, IntArray, BoolArray]:
        """Of each operator: the number of letters of an axis, the index of R, whether its choices are of two axes."""
        letters = np.array([len(operator.letters) for operator in self.operators], dtype=np.int64)
        whole = np.array([operator.letters.index("R") for operator in self.operators], dtype=np.int64)
        return letters, whole, np.array([operator.axes == 2 for operator in self.operators])

    def legal(self, vectors: ArrayLike) -> BoolArray:
        """(n,) whether each vector breaks no static rule."""
        given = np.array(vectors, dtype=np.int64, ndmin=2)
        inside = self.in_range(given)
        canonical = self.canonical(np.where(inside[:, None], given, 0))
        allowed = self._allowed(canonical)
        legal: BoolArray = inside & allowed.all(axis=1)
        return legal

    def _allowed(self, vectors: IntArray) -> BoolArray:
        rows = self.mask_rows[vectors[:, 0]][:, None]
        columns = np.arange(1, vectors.shape[1])
        allowed: BoolArray = self.masks[rows, columns, vectors[:, 1:]]
        return allowed

    def repair(self, vectors: ArrayLike) -> IntArray:
        """Canonical vectors in which every illegal choice is replaced by the operator's first legal one."""
        repaired = self.canonical(vectors)
        first = self.masks[self.mask_rows[repaired[:, 0]], 1:].argmax(axis=2)
        repaired[:, 1:] = np.where(self._allowed(repaired), repaired[:, 1:], first)
        return repaired

    def sample(self, n: int, rng: np.random.Generator) -> IntArray:
        """(n, d) legal vectors: degrees uniform, then every operator uniform over its legal choices."""
        vectors = np.empty((n, len(self.names)), dtype=np.int64)
        vectors[:, 0] = rng.integers(len(self.degrees), size=n)
        masks = self.masks[self.mask_rows[vectors[:, 0]], 1:]
        counts = masks.cumsum(axis=2)
        wanted = rng.integers(counts[:, :, -1]) + 1
        vectors[:, 1:] = (counts >= wanted[:, :, None]).argmax(axis=2)
        return vectors

    def decode(self, vector: ArrayLike) -> Strategy:
        """The strategy of one vector.

        Raises:
            InputError: if an entry is out of range.
        """
        given = np.array(vector, dtype=np.int64).reshape(1, -1)
        if given.shape[1] != len(self.names) or not self.in_range(given)[0]:
            raise InputError("vector out of range", value=given[0].tolist(), legal=[f"0 <= v < {self.sizes.tolist()}"])
        canonical = self.canonical(given)[0]
        degrees = Degrees(*map(int, self.degrees[canonical[0]]))
        sharding = {
            operator.key: operator.choices[choice]
            for operator, choice in zip(self.operators, canonical[1:].tolist(), strict=True)
        }
        return Strategy(degrees, sharding, even_stages(self.layers, degrees.pp), frozenset(sharding))

    def encode(self, strategy: Any) -> IntArray:
        """The vector of a strategy.

        Raises:
            InputError: if the strategy is not in the space.
        """
        if not isinstance(strategy, Strategy):
            raise InputError("strategy of two pools is not in the space of one", field="strategy")
        d = strategy.degrees
        row = (d.replicas, d.pp, d.dp, d.tx, d.ty, d.ep, d.etp)
        found = np.flatnonzero((self.degrees == row).all(axis=1))
        plain = strategy.stages == even_stages(self.layers, d.pp)
        if not len(found) or not plain or strategy.redundant_experts or strategy.padding:
            raise InputError("strategy is not in the task's space", field="degrees", value=d.label())
        choices = [operator.index(strategy.sharding[operator.key]) for operator in self.operators]
        return np.array([found[0], *choices], dtype=np.int64)

    def to_dict(self) -> dict[str, Any]:
        """Plain data that ``from_dict`` reads back."""
        return {
            "operators": [[each.key, each.name, list(each.letters), each.axes] for each in self.operators],
            "degrees": self.degrees.tolist(),
            "layers": self.layers,
            "mask_rows": self.mask_rows.tolist(),
            "mask_shape": list(self.masks.shape),
            "masks": np.packbits(self.masks).tobytes().hex(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Space:
        """Read what ``to_dict`` wrote."""
        shape = tuple(data["mask_shape"])
        bits = np.frombuffer(bytes.fromhex(data["masks"]), dtype=np.uint8)
        masks = np.unpackbits(bits, count=int(np.prod(shape))).astype(np.bool_).reshape(shape)
        operators = [Operator(key, name, tuple(letters), axes) for key, name, letters, axes in data["operators"]]
        degrees = np.array(data["degrees"], dtype=np.int64)
        return cls(operators, degrees, data["layers"], np.array(data["mask_rows"], dtype=np.int64), masks)

    @cached_property
    def digest(self) -> str:
        """Hash of all that gives a vector its meaning."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()


def _masks(rules: OperatorRules, listed: Sequence[Degrees]) -> tuple[IntArray, BoolArray]:
    """What ``Space`` says of ``mask_rows`` and ``masks``; operators with equal limits have equal masks."""
    keys = [(d.tx, d.ty, d.etp) for d in listed]
    meshes = dict(zip(keys, listed, strict=True))
    rows = {key: row for row, key in enumerate(meshes)}
    alike: dict[Hashable, list[int]] = {}
    for column, operator in enumerate(rules.operators, start=1):
        alike.setdefault((operator.choices, rules.limits(operator)), []).append(column)
    widest = max(len(operator.choices) for operator in rules.operators)
    masks = np.zeros((len(rows), 1 + len(rules.operators), widest), dtype=np.bool_)
    for columns in alike.values():
        operator, known = rules.operators[columns[0] - 1], {}
        for row, d in enumerate(meshes.values()):
            sizes = axis_sizes(d, operator)
            if sizes not in known:
                legal = rules.legal_choices(operator, sizes)
                known[sizes] = [choice in legal for choice in operator.choices]
            masks[row, columns, : len(operator.choices)] = known[sizes]
    return np.array([rows[key] for key in keys], dtype=np.int64), masks
