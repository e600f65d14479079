"""The price of an edge: converting the activation and, where it is counted there, the operator at its end."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.attention import core_node
from lts_bench.cost.conversion import STATES, Activation, conversion_seconds, state_letters
from lts_bench.cost.graph import Block, Edge
from lts_bench.cost.mesh import Mesh
from lts_bench.cost.nodes import (
    ACTIVATION_BYTES,
    Setting,
    View,
    embed_node,
    head_node,
    matmul_node,
    stream_node,
)
from lts_bench.cost.rows import ILLEGAL_SECONDS
from lts_bench.cost.signatures import HEAD, SAMPLING
from lts_bench.space.operators import Operator
from lts_bench.space.rules import Limits, OperatorRules, breaches

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Choices = tuple[tuple[str, ...], ...]


def state_index(states: tuple[str, ...]) -> int:
    """Index of a canonical state, x-major."""
    index = 0
    for state in states:
        index = index * len(STATES) + STATES.index(state)
    return index


@lru_cache(maxsize=4096)
def _outputs(edge: Edge, choices: Choices, prefill: bool) -> IntArray:
    """(choices,) states in which the producer leaves an edge's activation."""
    return np.array([state_index(edge.left(choice, prefill)) for choice in choices])


@lru_cache(maxsize=4096)
def _inputs(edge: Edge, choices: Choices, prefill: bool) -> IntArray:
    """(choices,) states in which the consumer takes an edge's activation."""
    return np.array([state_index(edge.needed(choice, prefill)) for choice in choices])


def mesh_choices(operator: Operator, axes: int) -> Choices:
    """An operator's choices on a mesh: all pairs on two axes, the letters of y on one."""
    return operator.choices if axes == 2 else tuple((letter,) for letter in operator.letters)


@dataclass
class MeshPrices:
    """Prices of all plain edges on the keys of one mesh; conversions of equal activations are shared."""

    setting: Setting
    mesh: Mesh
    rules: OperatorRules

    def __post_init__(self) -> None:
        self._conversions: dict[tuple[int, bool], FloatArray] = {}
        self._nodes: dict[tuple[Block, Operator], tuple[FloatArray, FloatArray]] = {}
        self._legal: dict[Hashable, NDArray[np.bool_]] = {}

    def view(self, operator: Operator) -> View:
        """The operator's choices on this mesh."""
        return View(self.setting, self.mesh, mesh_choices(operator, self.mesh.axes))

    def activation(self, features: int, *, sequences: bool = False) -> Activation:
        """An activation of one data-parallel rank: of all tokens, or one row a sequence."""
        phases = self.setting.phases
        return Activation(phases.sequences if sequences else phases.tokens, features, ACTIVATION_BYTES)

    def conversions(self, features: int, *, sequences: bool = False) -> FloatArray:
        """(states, states, keys, phases) cheapest conversions of an activation."""
        key = (features, sequences)
        if key not in self._conversions:
            tensor = self.activation(features, sequences=sequences)
            self._conversions[key] = conversion_seconds(self.mesh, tensor)
        return self._conversions[key]

    def _summed(self, edge: Edge) -> FloatArray:
        """(states, states, keys, phases) conversions of an edge whose partial sums are reduced at another width."""
        summed, one = self.conversions(edge.summed_features), self.conversions(edge.features).copy()
        partial = np.array(["P" in letters for letters in state_letters(self.mesh.axes)])
        whole = np.flatnonzero(~partial)
        after = one[np.ix_(whole, whole)]
        through = np.empty_like(after)
        for state in np.flatnonzero(partial):
            one[state, whole] = np.add(summed[state, whole][:, None], after, out=through).min(axis=0)
        return one

    def conversion(self, edge: Edge, source: Operator, target: Operator) -> FloatArray:
        """(keys, source choices, target choices, phases) time to convert an edge's activation.

        A mixed step converts all tokens as prompts are, and its decoded ones no faster than a step that decodes alone.
        """
        if edge.summed_features:
            one = self._summed(edge)
        else:
            one = self.conversions(edge.features, sequences=edge.target == "head")
        phases = self.setting.phases
        if edge.when == "prefill":
            time = np.zeros((len(self.mesh), *map(len, self.states(edge, source, target, True)), len(phases)))
        else:
            time = self._converted(one, edge, source, target, False)
        if edge.when != "always" or edge.made.prefill != edge.made.decode or edge.used.prefill != edge.used.decode:
            part, prompts = phases.prompting, edge.when != "decode"
            time[..., part] = self._converted(one[..., part], edge, source, target, True) if prompts else 0.0
        mixed, alone = phases.beside
        time[..., mixed] = np.maximum(time[..., mixed], time[..., alone])
        return time

    def _converted(self, one: FloatArray, edge: Edge, source: Operator, target: Operator, prefill: bool) -> FloatArray:
        """(keys, source choices, target choices, phases) conversions between the states of prefill or decode."""
        rows, ends = self.states(edge, source, target, prefill)
        return np.moveaxis(one[rows[:, None], ends], 2, 0)

    def states(self, edge: Edge, source: Operator, target: Operator, prefill: bool) -> tuple[IntArray, IntArray]:
        """State indices of the producer's and the consumer's choices."""
        outputs = _outputs(edge, self.view(source).choices, prefill)
        return outputs, _inputs(edge, self.view(target).choices, prefill)

    def node(self, block: Block, operator: Operator) -> tuple[FloatArray, FloatArray]:
        """((keys, choices, phases) time, (keys, choices, 4) memory) of an operator; illegal choices cost infinity."""
        if (block, operator) not in self._nodes:
            time, memory = self._own(block, operator, self.view(operator))
            time[~self.legal(operator)] = np.inf
            self._nodes[block, operator] = time, memory
        return self._nodes[block, operator]

    def legal(self, operator: Operator) -> NDArray[np.bool_]:
        """(keys, choices) whether a choice breaks no rule."""
        limits: Limits = frozenset() if self.setting.padding else self.rules.limits(operator)
        key = (operator.choices, limits)
        if key not in self._legal:
            self._legal[key] = self._within(limits, self.view(operator))
        return self._legal[key]

    def _within(self, limits: Limits, view: View) -> NDArray[np.bool_]:
        legal = np.ones((len(self.mesh), len(view.choices)), dtype=np.bool_)
        for letter, extents in limits:
            if extents:
                degrees, places = np.unique(view.split(letter), return_inverse=True)
                allowed = [not any(breaches(extents, int(degree))) for degree in degrees]
                legal &= np.array(allowed)[places].reshape(legal.shape)
        return legal

    def _own(self, block: Block, operator: Operator, view: View) -> tuple[FloatArray, FloatArray]:
        name, layer = operator.name, block.layer
        if name == "embed":
            return embed_node(view)
        if name == "head":
            return self._head(view)
        assert layer is not None
        if name == "stream":
            branches = sum(edge.target == "stream" and edge.charged == "target" for edge in block.edges)
            return stream_node(view, layer, branches)
        if name == "attention.core":
            return core_node(view, layer)
        return matmul_node(view, layer, layer.operators(self.setting.model.hidden)[name])

    def _head(self, view: View) -> tuple[FloatArray, FloatArray]:
        """The head and the gather of its logits on every device that samples."""
        time, memory = head_node(view)
        logits = self.conversions(self.setting.model.vocab, sequences=True)
        for column, choice in enumerate(view.choices):
            have = state_index(HEAD.decode.left(choice))
            want = state_index(SAMPLING.decode.needed(choice))
            time[:, column] += logits[have, want]
        return time, memory


def overlapped(moving: FloatArray, working: FloatArray, overlap: float) -> FloatArray:
    """Communication and the computation beside it, the overlapped share of the lesser one hidden."""
    working = np.minimum(working, ILLEGAL_SECONDS)
    time: FloatArray = moving + working
    if overlap:
        hidden = np.minimum(moving, working)
        hidden *= overlap
        time -= hidden
    return time
