"""A model as a graph of operators and the activations between them, one block for every distinct layer."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lts_bench.cost.signatures import (
    ABSORBED_QUERIES,
    ABSORBED_VALUES,
    ATTENTION,
    EMBEDDING,
    HEAD,
    KEYS,
    LATENT_ATTENTION,
    LATENTS,
    PASSED_LATENTS,
    PROJECTION,
    RESIDUAL,
    Letters,
    Signature,
)
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
        made: what the producer computes.
        used: what the consumer computes of it.
        operand: its place among the consumer's operands.
    """

    source: str
    target: str
    features: int
    charged: Literal["source", "target", "none"] = "target"
    when: When = "always"
    role: Role = "plain"
    summed_features: int = 0
    made: Signature = PROJECTION
    used: Signature = PROJECTION
    operand: int = 0

    def left(self, choice: Letters, prefill: bool) -> Letters:
        """State of every axis (M, N, R or P) in which a choice of the producer leaves the activation."""
        return self.made.phase(prefill).left(choice)

    def needed(self, choice: Letters, prefill: bool) -> Letters:
        """State of every axis (M, N or R) in which a choice of the consumer takes it."""
        return self.used.phase(prefill).needed(choice, self.operand)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Operators that are priced together and counted as often as a pipeline stage holds them; equal to itself alone.

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
        Edge("stream", "attention.qkv", hidden, made=RESIDUAL),
        Edge("attention.qkv", "attention.core", operators["attention.qkv"].n, used=ATTENTION),
        Edge("attention.core", "attention.out", operators["attention.out"].k, made=ATTENTION),
        Edge("attention.out", "stream", hidden, used=RESIDUAL),
    ]


Q_DOWN, Q_UP, KV_DOWN, KV_UP, CORE, OUT = (
    f"attention.{name}" for name in ("q_down", "q_up", "kv_down", "kv_up", "core", "out")
)


def _latent_attention_edges(mixer: LatentAttention, operators: dict[str, Matrix], hidden: int) -> list[Edge]:
    """Prefill expands the latents to keys and values; decode absorbs that matrix into queries and results."""
    queries = [Edge("stream", Q_UP, hidden, made=RESIDUAL)]
    if mixer.q_rank is not None:
        queries = [Edge("stream", Q_DOWN, hidden, made=RESIDUAL), Edge(Q_DOWN, Q_UP, mixer.q_rank)]
    return [
        *queries,
        Edge("stream", KV_DOWN, hidden, made=RESIDUAL),
        *_expanded_edges(operators),
        *_absorbed_edges(mixer, operators),
        Edge(OUT, "stream", hidden, used=RESIDUAL),
    ]


def _expanded_edges(operators: dict[str, Matrix]) -> list[Edge]:
    """Prefill. Latents reach the cache from where they are expanded, so that they are gathered or reduced once."""
    latent, core = operators[KV_DOWN].n, LATENT_ATTENTION
    return [
        Edge(Q_UP, CORE, operators[Q_UP].n, "none", "prefill", used=core),
        Edge(KV_DOWN, KV_UP, latent, "none", "prefill"),
        Edge(KV_UP, CORE, operators[KV_UP].n, "source", "prefill", used=core, operand=KEYS),
        Edge(KV_UP, CORE, latent, "none", "prefill", made=PASSED_LATENTS, used=core, operand=LATENTS),
        Edge(CORE, OUT, operators[OUT].k, "none", "prefill", made=core),
    ]


def _absorbed_edges(mixer: LatentAttention, operators: dict[str, Matrix]) -> list[Edge]:
    """Decode. Queries and results of the core are as wide as the latent for every head."""
    latent, core = operators[KV_DOWN].n, LATENT_ATTENTION
    return [
        Edge(Q_UP, KV_UP, operators[Q_UP].n, "none", "decode", used=ABSORBED_QUERIES),
        Edge(KV_UP, CORE, mixer.heads * latent, "none", "decode", made=ABSORBED_QUERIES, used=core),
        Edge(KV_DOWN, CORE, latent, "target", "decode", used=core, operand=LATENTS),
        Edge(CORE, KV_UP, mixer.heads * mixer.kv_rank, "none", "decode", made=core, used=ABSORBED_VALUES),
        Edge(KV_UP, OUT, operators[OUT].k, "target", "decode", made=ABSORBED_VALUES),
    ]


def _ffn_edges(layer: Layer, hidden: int) -> list[Edge]:
    ffn = layer.ffn
    if isinstance(ffn, DenseFfn):
        return [
            Edge("stream", "ffn.up", hidden, made=RESIDUAL),
            Edge("ffn.up", "ffn.down", ffn.width, summed_features=ffn.width * (2 if ffn.gated else 1)),
            Edge("ffn.down", "stream", hidden, used=RESIDUAL),
        ]
    if not isinstance(ffn, MoeFfn):
        return []
    edges = [
        Edge("stream", "router", hidden, made=RESIDUAL),
        Edge("stream", "experts.up", hidden, role="dispatch", made=RESIDUAL),
        Edge("experts.up", "experts.down", ffn.width, role="experts"),
        Edge("experts.down", "stream", hidden, role="combine", used=RESIDUAL),
    ]
    if ffn.shared_width:
        summed = ffn.shared_width * (2 if ffn.shared_gated else 1)
        edges += [
            Edge("stream", "shared.up", hidden, made=RESIDUAL),
            Edge("shared.up", "shared.down", ffn.shared_width, summed_features=summed),
            Edge("shared.down", "stream", hidden, charged="none", used=RESIDUAL),
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
    hidden = model.hidden
    residual = (Edge("stream", "stream", hidden, charged="none", made=RESIDUAL, used=RESIDUAL),)
    embedded = (Edge("embed", "stream", hidden, charged="source", made=EMBEDDING, used=RESIDUAL),)
    return (
        *(layer_block(model, layer) for layer in layers),
        *(Block(f"{a} to {b}", a, None, residual, other_kind=b) for a, b in changes),
        Block("embed", kinds[0], None, embedded),
        Block("head", kinds[-1], None, (Edge("stream", "head", hidden, made=RESIDUAL, used=HEAD),)),
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
