"""A model as a graph of operators and the activations between them, one block for every distinct layer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lts_bench.specs.layers import Attention, DenseFfn, LatentAttention, Layer, LinearMixer, Matrix, MoeFfn
from lts_bench.specs.model import Model

When = Literal["always", "prefill", "decode"]
Role = Literal["plain", "dispatch", "experts", "combine"]


@dataclass(frozen=True, slots=True)
class Edge:
    """An activation from one operator to another.

    Attributes:
        source: producer's name, e.g. ``stream``.
        target: consumer's name.
        features: width of the activation.
        charged: the end whose own time and memory are counted on this edge, once for every operator.
        when: the phases in which the activation exists.
        role: plain edges lie within the tensor-parallel mesh; the others concern routed experts.
        summed_features: width at which partial sums of the producer are reduced, where a nonlinearity comes between
            (gate and up projection); 0 where it is that of the activation.
    """

    source: str
    target: str
    features: int
    charged: Literal["source", "target", "none"] = "target"
    when: When = "always"
    role: Role = "plain"
    summed_features: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """Operators that are priced together and counted as often as a pipeline stage holds them.

    Attributes:
        name: for breakdowns, the kind of layer.
        kind: layer kind, the prefix of the operators' keys; empty for embedding and head.
        layer: the layer, None for embedding, head and transitions.
        other_kind: the kind of the next layer, for a transition between residual layouts.
    """

    name: str
    kind: str
    layer: Layer | None
    edges: tuple[Edge, ...]
    other_kind: str = ""

    @property
    def identity(self) -> object:
        """What tells the block from others: its layer, the change of kind, or its name."""
        if self.layer is not None:
            return self.layer
        return (self.kind, self.other_kind) if self.other_kind else self.name

    def key(self, operator: str, *, target: bool = False) -> str:
        """Key of an operator of this block in a strategy."""
        if operator in ("embed", "head"):
            return operator
        return f"{self.other_kind if target and self.other_kind else self.kind}.{operator}"


def joined(edges: tuple[Edge, ...]) -> list[tuple[Edge, ...]]:
    """Plain edges between the same two operators, either way, together: they depend on the same pair of choices."""
    groups: dict[object, list[Edge]] = {}
    for edge in edges:
        ends = frozenset((edge.source, edge.target))
        groups.setdefault(ends if edge.role == "plain" else edge, []).append(edge)
    return [tuple(group) for group in groups.values()]


def _attention_edges(layer: Layer, hidden: int) -> list[Edge]:
    mixer = layer.mixer
    operators = layer.operators(hidden)
    if isinstance(mixer, LatentAttention):
        return _latent_attention_edges(mixer, operators, hidden)
    assert isinstance(mixer, Attention | LinearMixer)
    return [
        Edge("stream", "attention.qkv", hidden),
        Edge("attention.qkv", "attention.core", operators["attention.qkv"].n),
        Edge("attention.core", "attention.out", operators["attention.out"].k),
        Edge("attention.out", "stream", hidden),
    ]


def _latent_attention_edges(mixer: LatentAttention, operators: dict[str, Matrix], hidden: int) -> list[Edge]:
    """Prefill expands the latents to keys and values; decode absorbs that matrix into queries and results.

    Absorbed queries and results of the core are as wide as the latent for every head.
    """
    query, latent, out = operators["attention.q_up"], operators["attention.kv_down"], operators["attention.out"]
    expanded = operators["attention.kv_up"]
    first = [Edge("stream", "attention.q_up", hidden)]
    if mixer.q_rank is not None:
        first = [Edge("stream", "attention.q_down", hidden), Edge("attention.q_down", "attention.q_up", mixer.q_rank)]
    return [
        *first,
        Edge("attention.q_up", "attention.core", query.n, charged="none", when="prefill"),
        Edge("attention.q_up", "attention.kv_up", query.n, charged="none", when="decode"),
        Edge("stream", "attention.kv_down", hidden),
        Edge("attention.kv_down", "attention.core", latent.n),
        Edge("attention.kv_down", "attention.kv_up", mixer.kv_rank, charged="none", when="prefill"),
        Edge("attention.kv_up", "attention.core", expanded.n, charged="source", when="prefill"),
        Edge("attention.kv_up", "attention.core", mixer.heads * latent.n, charged="none", when="decode"),
        Edge("attention.core", "attention.kv_up", mixer.heads * mixer.kv_rank, charged="none", when="decode"),
        Edge("attention.core", "attention.out", out.k, charged="none", when="prefill"),
        Edge("attention.kv_up", "attention.out", out.k, when="decode"),
        Edge("attention.out", "stream", hidden),
    ]


def _ffn_edges(layer: Layer, hidden: int) -> list[Edge]:
    ffn = layer.ffn
    if isinstance(ffn, DenseFfn):
        return [
            Edge("stream", "ffn.up", hidden),
            Edge("ffn.up", "ffn.down", ffn.width, summed_features=ffn.width * (2 if ffn.gated else 1)),
            Edge("ffn.down", "stream", hidden),
        ]
    if not isinstance(ffn, MoeFfn):
        return []
    edges = [
        Edge("stream", "router", hidden),
        Edge("stream", "experts.up", hidden, role="dispatch"),
        Edge("experts.up", "experts.down", ffn.width, role="experts"),
        Edge("experts.down", "stream", hidden, role="combine"),
    ]
    if ffn.shared_width:
        summed = ffn.shared_width * (2 if ffn.shared_gated else 1)
        edges += [
            Edge("stream", "shared.up", hidden),
            Edge("shared.up", "shared.down", ffn.shared_width, summed_features=summed),
            Edge("shared.down", "stream", hidden, charged="none"),
        ]
    return edges


def layer_block(model: Model, layer: Layer) -> Block:
    """The block of one layer."""
    kind = model.kind_of(layer)
    edges = (_attention_edges(layer, model.hidden) if layer.mixer else []) + _ffn_edges(layer, model.hidden)
    return Block(kind, kind, layer, tuple(edges))


def model_blocks(model: Model) -> tuple[Block, ...]:
    """Blocks of a model: its distinct layers, transitions between kinds, embedding, head."""
    layers = tuple(dict.fromkeys(model.layers))
    kinds = [model.kind_of(layer) for layer in model.layers]
    changes = tuple(dict.fromkeys(pair for pair in pairwise(kinds) if pair[0] != pair[1]))
    residual = (Edge("stream", "stream", model.hidden, charged="none"),)
    return (
        *(layer_block(model, layer) for layer in layers),
        *(Block(f"{a} to {b}", a, None, residual, other_kind=b) for a, b in changes),
        Block("embed", kinds[0], None, (Edge("embed", "stream", model.hidden, charged="source"),)),
        Block("head", kinds[-1], None, (Edge("stream", "head", model.hidden),)),
    )


def block_counts(model: Model, blocks: tuple[Block, ...], stages: tuple[int, ...]) -> list[tuple[int, ...]]:
    """How often every stage holds each block; a change of kind at a stage's start belongs to that stage."""
    kinds = [model.kind_of(layer) for layer in model.layers]
    index: dict[object, int] = {block.identity: position for position, block in enumerate(blocks)}
    counts: list[tuple[int, ...]] = []
    start = 0
    for stage, length in enumerate(stages):
        row = [0] * len(blocks)
        for position in range(start, start + length):
            row[index[model.layers[position]]] += 1
            if position and kinds[position - 1] != kinds[position]:
                row[index[kinds[position - 1], kinds[position]]] += 1
        row[index["embed"]] += stage == 0
        row[index["head"]] += stage == len(stages) - 1
        counts.append(tuple(row))
        start += length
    return counts
