"""What a rule of propagation gets and gives: the place of an operator and one way to compute it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations, product

from lts_bench.cost.layout import Layout
from lts_bench.cost.redistribution import DeviceMesh, Step, Tensor

Wishes = Mapping[int, frozenset[int]]
"""Axis → dimensions that later operators would like it to split."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to compute an operator.

    Attributes:
        operands: the layouts that the operands are converted to.
        result: the layout that comes out.
        flops: of a matrix product, per device.
        steps: collectives of the operator itself.
    """

    operands: tuple[Layout, ...]
    result: Layout
    flops: int = 0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Place:
    """Where an operator stands.

    Attributes:
        mesh: the devices.
        tensors: every value of the program.
        fixed: values whose layout the program gives: inputs and pinned results.
        wishes: what is wished of the operator's result.
    """

    mesh: DeviceMesh
    tensors: Mapping[str, Tensor]
    fixed: frozenset[str]
    wishes: Wishes


def settled(layout: Layout, wishes: Wishes, extend: bool = False) -> list[Layout]:
    """What a partial sum may become: reduced, or scattered to dimensions that are wished.

    Args:
        layout: with or without pending axes.
        wishes: dimensions to scatter to.
        extend: scatter also to dimensions that other axes split, to be gathered again where nobody wants that.
    """
    pending = sorted(layout.pending)
    split = frozenset(dim for dim, axes in enumerate(layout.dims) if axes) if extend else frozenset()
    homes = [(None, *sorted(wishes.get(axis, frozenset()) | split)) for axis in pending]
    found: dict[Layout, None] = {}
    for assigned in product(*homes):
        for order in permutations(range(len(pending))):
            dims = list(layout.dims)
            for index in order:
                home = assigned[index]
                if home is not None:
                    dims[home] += (pending[index],)
            found[Layout(tuple(dims))] = None
    return list(found)
