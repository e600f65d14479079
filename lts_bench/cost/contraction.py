"""How layouts pass through a contraction out[…] = Σ x[…]·y[…]: which index every mesh axis splits.

An axis that splits an index of the result splits the result; one that splits a contracted index leaves partial sums.
A look-up in an embedding is the contraction of its table with one-hot ids, without flops.
Sources: GSPMD (arXiv 2105.04663) section 3, Alpa (2201.12023) table 2, Pope et al. (2211.05102).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from math import prod

from lts_bench.cost.choice import Choice, Place
from lts_bench.cost.layout import Axes, Layout
from lts_bench.cost.programs import Operator, letters
from lts_bench.cost.redistribution import conversion, wire_bytes

PENDING, NONE = "pending", ""
LAUNCH_BYTES = 1 << 19
"""What a device sends while one more collective starts: some 25 µs at 20 GB/s, between nodes."""


def contraction(operator: Operator, place: Place, layouts: Sequence[Layout]) -> Iterator[Choice]:
    """Every legal assignment of mesh axes to indices."""
    here = _Contraction(operator, place, tuple(layouts))
    for assigned in product(*(here.indices(axis) for axis in place.mesh.axes)):
        for split in here.orders(assigned):
            yield here.choice(assigned, split)


def contracted(words: Iterable[str], out: str) -> set[str]:
    """Indices that are summed over."""
    return {letter for word in words for letter in word} - set(out)


def operand_layout(word: str, split: Mapping[str, Axes], pending: frozenset[int] = frozenset()) -> Layout:
    """Layout of an operand: a split index splits every operand that has it."""
    return Layout(tuple(split.get(letter, ()) for letter in word), pending)


def result_layout(
    words: Iterable[str], out: str, split: Mapping[str, Axes], pending: frozenset[int] = frozenset()
) -> Layout:
    """Layout of the result: it is split where it has a split index, and partial where that is summed over."""
    summed = {axis for letter in contracted(words, out) for axis in split.get(letter, ())}
    return operand_layout(out, split, pending | summed)


@dataclass(frozen=True)
class _Contraction:
    operator: Operator
    place: Place
    layouts: tuple[Layout, ...]

    @cached_property
    def words(self) -> tuple[str, str]:
        """Indices of both operands."""
        return letters(self.operator, self.place.tensors)[:2]

    @cached_property
    def out(self) -> str:
        """Indices of the result."""
        return letters(self.operator, self.place.tensors)[2]

    @cached_property
    def contracted(self) -> set[str]:
        """Indices that are summed over."""
        return contracted(self.words, self.out)

    def indices(self, axis: int) -> list[str]:
        """The indices that an axis may split, most natural first.

        ``PENDING``: the partial sums of an operand pass into the result. ``NONE``: every device does the same.
        """
        carried = [self._carried(axis, operand) for operand in (0, 1)]
        partial = [axis in layout.pending for layout in self.layouts]
        wished = [self.out[dim] for dim in sorted(self.place.wishes.get(axis, ()))]
        if self._decided(carried, partial, wished):
            return [carried[0] or carried[1]]
        found = [letter for letter in carried if letter] + wished
        if all(carried):
            found = self._movable(found) + self._met_halfway(axis)
        if sum(partial) == 1:
            found += self._of_partial(partial.index(True), alone=not any(carried))
        split = all(carried) or (any(carried) and (wished or "".join(carried) in self.out))
        return list(dict.fromkeys(found if split else [*found, NONE]))

    def _carried(self, axis: int, operand: int) -> str:
        pairs = zip(self.words[operand], self.layouts[operand].dims, strict=True)
        return next((letter for letter, axes in pairs if axis in axes), NONE)

    def _decided(self, carried: Sequence[str], partial: Sequence[bool], wished: Sequence[str]) -> bool:
        """Whether the operands leave no choice: both split the same index, or one does and the other follows.

        Ids follow their table; a value that is neither given nor pinned, nor wished otherwise, the other operand.
        """
        if all(carried):
            return carried[0] == carried[1]
        if not any(carried) or any(partial):
            return False
        other = 0 if carried[1] else 1
        has = carried[1 - other] in self.words[other]
        follows = has and self.operator.operands[other] not in self.place.fixed
        return self.operator.kind == "embed" or (follows and not set(wished) & set(self.words[other]))

    def _of_partial(self, operand: int, alone: bool) -> list[str]:
        """The indices of an operand with partial sums, which a reduce-scatter can split; or the sums stay partial.

        Before a contraction over several indices at once they are reduced.
        """
        if len(self.contracted) > 1:
            return []
        summed = self.place.tensors[self.operator.operands[operand]].reduce == "sum"
        return [*self.words[operand], *([PENDING] if alone and summed else [])]

    def _movable(self, indices: Iterable[str]) -> list[str]:
        """Those that an axis can be moved to: several contracted indices become one, and none of them is moved to."""
        return [letter for letter in indices if len(self.contracted) == 1 or letter not in self.contracted]

    def _met_halfway(self, axis: int) -> list[str]:
        """Common indices that both operands may move an axis to, where that is well cheaper than a gather."""
        gathered = min(self._moved(axis, operand, NONE) for operand in (0, 1))
        shared = self._movable(letter for letter in self.words[0] if letter in self.words[1])
        most = gathered - LAUNCH_BYTES * self.place.mesh.devices
        return [each for each in shared if self._moved(axis, 0, each) + self._moved(axis, 1, each) < most]

    def _moved(self, axis: int, operand: int, letter: str) -> int:
        """Wire bytes, times devices, of moving an axis of an operand to another index."""
        layout, tensor = self.layouts[operand], self.place.tensors[self.operator.operands[operand]]
        dims = [tuple(other for other in axes if other != axis) for axes in layout.dims]
        if letter:
            dims[self.words[operand].index(letter)] += (axis,)
        target = Layout(tuple(dims), layout.pending)
        return wire_bytes(self.place.mesh, conversion(self.place.mesh, tensor, layout, target))

    def orders(self, assigned: Sequence[str]) -> Iterator[dict[str, Axes]]:
        """Every order of the axes that split the same index, the operands' own order first."""
        present = [axis for layout in self.layouts for axes in layout.dims for axis in axes]
        rank = {axis: position for position, axis in reversed(list(enumerate(present)))}
        groups: dict[str, list[int]] = {}
        for axis in sorted(self.place.mesh.axes, key=lambda axis: rank.get(axis, len(present))):
            if assigned[axis] not in (PENDING, NONE):
                groups.setdefault(assigned[axis], []).append(axis)
        for orders in product(*(permutations(group) for group in groups.values())):
            yield dict(zip(groups, orders, strict=True))

    def choice(self, assigned: Sequence[str], split: Mapping[str, Axes]) -> Choice:
        """The contraction whose indices are split so."""
        kept = [frozenset(axis for axis in each.pending if assigned[axis] == PENDING) for each in self.layouts]
        pairs = zip(self.words, kept, strict=True)
        operands = tuple(operand_layout(word, split, own) for word, own in pairs)
        return Choice(operands, result_layout(self.words, self.out, split, kept[0] | kept[1]), self._flops(split))

    def _flops(self, split: Mapping[str, Axes]) -> int:
        """2 · Π local sizes of the indices."""
        if self.operator.kind != "einsum":
            return 0
        shapes = [self.place.tensors[name].shape for name in self.operator.operands]
        sizes = {
            letter: size for pair in zip(self.words, shapes, strict=True) for letter, size in zip(*pair, strict=True)
        }
        return 2 * prod(-(-size // self.place.mesh.parts(split.get(each, ()))) for each, size in sizes.items())
