"""The operators of a model as equations over indices, with the index that every sharding letter splits.

In which state a mesh axis finds an operand and leaves the result follows by the rule of every contraction: a split
index splits each tensor that has it, and leaves partial sums where it is summed over. No layer has a rule of its own.

Activations are written tokens first, then features, major first. Indices: t tokens (in decode one of every sequence),
u tokens of keys and values, k and n input and output features, h heads, d features of a head, r features of a latent,
v entries of the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

from lts_bench.cost.contraction import operand_layout, result_layout
from lts_bench.cost.layout import Axes, Layout

Letters = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Equation:
    """What an operator computes.

    Attributes:
        text: operands and result as in einsum.
        splits: (sharding letter, index) pairs; other letters split nothing.
    """

    text: str
    splits: tuple[tuple[str, str], ...]

    def needed(self, choice: Letters, operand: int = 0) -> Letters:
        """State (M, N or R) of every axis in which an operand is taken; parts of heads are cut from whole ones."""
        words, _ = self._words()
        return _states(operand_layout(words[operand], self._split(choice)), len(choice), within_heads="R")

    def left(self, choice: Letters) -> Letters:
        """State (M, N, R or P) of every axis in which the result is left; parts of heads are taken for partial sums."""
        return _states(result_layout(*self._words(), self._split(choice)), len(choice), within_heads="P")

    def _words(self) -> tuple[tuple[str, ...], str]:
        operands, _, result = self.text.partition("->")
        return tuple(operands.split(",")), result

    def _split(self, choice: Letters) -> dict[str, Axes]:
        """Index → the axes that split it, x major."""
        indices = dict(self.splits)
        return {
            index: tuple(axis for axis, letter in enumerate(choice) if indices.get(letter) == index)
            for index in indices.values()
        }


def _states(layout: Layout, axes: int, within_heads: str) -> Letters:
    """State of every axis of an activation; ``within_heads`` of one that splits an index after heads."""
    by_dim = ("M", "N", *[within_heads] * len(layout.dims))
    state = {axis: name for name, split in zip(by_dim, layout.dims, strict=False) for axis in split}
    state |= dict.fromkeys(layout.pending, "P")
    return tuple(state.get(axis, "R") for axis in range(axes))


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator in both phases."""

    prefill: Equation
    decode: Equation

    def phase(self, prefill: bool) -> Equation:
        """The equation of one phase."""
        return self.prefill if prefill else self.decode


def equation(text: str, **splits: str) -> Equation:
    """An equation with the index of each sharding letter."""
    return Equation(text, tuple(splits.items()))


def always(text: str, **splits: str) -> Signature:
    """An operator that is the same in both phases."""
    return Signature(equation(text, **splits), equation(text, **splits))


PROJECTION = always("tk,kn->tn", M="t", K="k", N="n")
RESIDUAL = always("tn->tn", M="t", N="n")
EMBEDDING = always("t,vn->tn", M="t", vocabulary="v", hidden="n")
HEAD = always("tk,kv->tv", M="t", vocabulary="v", hidden="k")
SAMPLING = always("tv->t", M="t")
ATTENTION = Signature(
    prefill=equation("thd,uhd->thd", heads="h", batch="t", kv_sequence="t"),
    decode=equation("thd,tuhd->thd", heads="h", batch="t", kv_sequence="u"),
)
"""Softmax attention of queries (which bring their own keys and values) on the keys and values before them; a prompt has
one sequence, of which ``batch`` and ``kv_sequence`` split the queries. A recurrence lacks ``kv_sequence``."""
LATENT_ATTENTION = Signature(
    prefill=equation("thd,uhd,tr->thd", heads="h", batch="t", kv_sequence="t"),
    decode=equation("thr,tur,tr->thr", heads="h", batch="t", kv_sequence="u"),
)
"""Operands: queries; keys and values, expanded from latents or the cached latents; latents of the new tokens."""
KEYS, LATENTS = 1, 2
ABSORBED_QUERIES = always("thd,hdr->thr", M="t", N="h", K="r")
"""The matrix that expands latents (``kv_up``), in decode taken into the queries …"""
ABSORBED_VALUES = always("thr,hrd->thd", M="t", N="h", K="r")
"""… and into the results."""
PASSED_LATENTS = always("tr->tr", M="t", K="r")
"""Latents as that matrix takes them, on their way to the cache."""
