"""A model as the cost model sees it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

from lts_bench.specs.formats import DTYPE_BYTES, Precision
from lts_bench.specs.layers import Layer, MoeFfn


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameter counts of a model: all, all but the experts a token does not use, the embedding alone."""

    total: int
    active: int
    embedding: int


@dataclass(frozen=True)
class Model:
    """A decoder model.

    Attributes:
        layers: in order; layers with equal shapes compare equal.
        tied: embedding and head share one matrix.
        vectors: parameters outside layers, embedding and head (final norm, learned positions, …).
        extra_parameters: parameters that are replicated on every device and not used in a decode step (a vision tower).
        draft_parameters: parameters of multi-token-prediction layers, loaded only on request and not in ``total``.
        warnings: what the reader assumed.
    """

    name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool = False
    vectors: int = 0
    extra_parameters: int = 0
    draft_parameters: int = 0
    max_context: int | None = None
    precision: Precision = field(default_factory=Precision)
    warnings: tuple[str, ...] = ()

    def kind_of(self, layer: Layer) -> str:
        """The layer's kind: mixer and feed-forward part, the mixer dropped where the model has only one.

        Where only some layers of a feed-forward part have the mixer, those without are ``none_dense`` or ``none_moe``.
        """
        names = self._part_names
        mixers = {mixer for mixer, _ in names if mixer}
        if not layer.ffn_name:
            return layer.mixer_name
        if not layer.mixer_name:
            shared = any(mixer and ffn == layer.ffn_name for mixer, ffn in names)
            return f"none_{layer.ffn_name}" if shared and len(mixers) == 1 else layer.ffn_name
        return f"{layer.mixer_name}_{layer.ffn_name}" if len(mixers) > 1 else layer.ffn_name

    @cached_property
    def _part_names(self) -> frozenset[tuple[str, str]]:
        """Names of mixer and feed-forward part that occur together."""
        return frozenset((each.mixer_name, each.ffn_name) for each in self.layers)

    @property
    def kinds(self) -> dict[str, int]:
        """Layer count by kind, in order of first appearance."""
        return dict(Counter(self.kind_of(layer) for layer in self.layers))

    @property
    def is_moe(self) -> bool:
        """Whether any layer has experts."""
        return any(isinstance(layer.ffn, MoeFfn) for layer in self.layers)

    @property
    def state_bytes_per_sequence(self) -> float:
        """Bytes of recurrent state of one sequence, all layers, whatever its length."""
        return sum(layer.mixer.state_bytes for layer in self.layers if layer.mixer)

    @property
    def kv_bytes_per_token(self) -> float:
        """KV cache bytes of one token of one sequence in the cache's own dtype, windows left aside."""
        return self.kv_elements_per_token * DTYPE_BYTES[self.precision.kv]

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding matrix."""
        return self.vocab * self.hidden

    @property
    def parameters(self) -> Parameters:
        """Counts without draft layers; active leaves out the experts that a token does not use."""
        copies = 1 if self.tied else 2
        outside = copies * self.embedding_parameters + self.vectors + self.extra_parameters
        total = outside + sum(layer.parameters(self.hidden) for layer in self.layers)
        idle = sum(_idle_parameters(layer, self.hidden) for layer in self.layers)
        return Parameters(total, total - idle, self.embedding_parameters)

    @property
    def kv_elements_per_token(self) -> int:
        """KV cache elements of one token of one sequence, all layers, windows left aside."""
        return sum(layer.mixer.kv_elements for layer in self.layers if layer.mixer)

    def with_precision(self, precision: Precision) -> Model:
        """The same model stored and computed in another precision."""
        return replace(self, precision=precision)

    def with_vocabulary(self, vocab: int) -> Model:
        """The same model with another vocabulary."""
        return replace(self, vocab=vocab)


def _idle_parameters(layer: Layer, hidden: int) -> int:
    if not isinstance(layer.ffn, MoeFfn):
        return 0
    expert = sum(
        matrix.k * matrix.n + matrix.vectors for matrix in layer.operators(hidden).values() if matrix.group == "experts"
    )
    return round((layer.ffn.experts - layer.ffn.mean_top_k) * expert)
