"""A layer: one mixer, one feed-forward part, or both, with the shape of every weight."""

from __future__ import annotations

from dataclasses import dataclass

from lts_bench.specs.formats import DTYPE_BYTES, WeightGroup


@dataclass(frozen=True, slots=True)
class Matrix:
    """One weight of an operator: ``k`` input and ``n`` output features.

    Attributes:
        unit_n: output features that must stay together when split on N (a head's width); splitting needs
            ``n / unit_n`` divisible by the degree.
        unit_k: the same for the input features.
        vectors: further parameters of the operator that are not split (biases, norms).
    """

    k: int
    n: int
    group: WeightGroup
    unit_n: int = 1
    unit_k: int = 1
    vectors: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """Softmax attention: MHA, GQA or MQA.

    Attributes:
        window: tokens a query sees at most; None for full attention.
        gated: the query projection also makes an output gate of the same width.
        vectors: norm and sink parameters.
        holds_kv: False where the layer reads another layer's KV cache.
        joint_norm: queries and keys are normalised over all heads together, not head by head.
    """

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    gated: bool = False
    vectors: int = 0
    holds_kv: bool = True
    joint_norm: bool = False

    @property
    def kv_elements(self) -> int:
        """KV cache elements of one token."""
        return 2 * self.kv_heads * self.head_dim if self.holds_kv else 0

    @property
    def state_bytes(self) -> float:
        """Bytes of state a sequence holds whatever its length."""
        return 0.0

    def operators(self, hidden: int) -> dict[str, Matrix]:
        """Weights by operator name."""
        q = self.heads * self.head_dim * (2 if self.gated else 1)
        kv = self.kv_elements
        bias = (q + kv if self.qkv_bias else 0) + self.vectors
        return {
            "attention.qkv": Matrix(hidden, q + kv, "attention", unit_n=self.head_dim, vectors=bias),
            "attention.out": Matrix(
                self.heads * self.head_dim,
                hidden,
                "attention",
                unit_k=self.head_dim,
                vectors=hidden if self.out_bias else 0,
            ),
        }


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): the cache holds one latent and one rotary key for all heads."""

    heads: int
    q_rank: int | None
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int

    @property
    def kv_elements(self) -> int:
        """KV cache elements of one token."""
        return self.kv_rank + self.rope_dim

    @property
    def state_bytes(self) -> float:
        """Bytes of state a sequence holds whatever its length."""
        return 0.0

    def operators(self, hidden: int) -> dict[str, Matrix]:
        """Weights by operator name; without a query rank the query projection is ``q_up`` alone."""
        query = self.nope_dim + self.rope_dim
        operators: dict[str, Matrix] = {}
        if self.q_rank is not None:
            operators["attention.q_down"] = Matrix(hidden, self.q_rank, "attention", vectors=self.q_rank)
        operators["attention.q_up"] = Matrix(self.q_rank or hidden, self.heads * query, "attention", unit_n=query)
        operators["attention.kv_down"] = Matrix(hidden, self.kv_rank + self.rope_dim, "attention", vectors=self.kv_rank)
        expanded = self.nope_dim + self.value_dim
        operators["attention.kv_up"] = Matrix(self.kv_rank, self.heads * expanded, "attention", unit_n=expanded)
        operators["attention.out"] = Matrix(self.heads * self.value_dim, hidden, "attention", unit_k=self.value_dim)
        return operators


@dataclass(frozen=True, slots=True)
class LinearMixer:
    """A linear-attention or state-space layer: projection in, a recurrence of fixed state, projection out.

    Attributes:
        heads: independent recurrences, the unit of splitting.
        in_features: outputs of all input projections together.
        out_features: inputs of the output projection.
        state_elements: recurrent and convolution state of one sequence, elements.
        vectors: further parameters (convolution, decay, norms).
        state_dtype: dtype of the recurrent state.
        conv_elements: the part of ``state_elements`` that is convolution state, kept in 16 bit.
    """

    heads: int
    in_features: int
    out_features: int
    state_elements: int
    vectors: int = 0
    state_dtype: str = "bf16"
    conv_elements: int = 0

    @property
    def state_bytes(self) -> float:
        """Bytes of state a sequence holds whatever its length."""
        recurrent = self.state_elements - self.conv_elements
        return recurrent * DTYPE_BYTES[self.state_dtype] + self.conv_elements * DTYPE_BYTES["bf16"]

    @property
    def kv_elements(self) -> int:
        """KV cache elements of one token: none."""
        return 0

    def operators(self, hidden: int) -> dict[str, Matrix]:
        """Weights by operator name, those of attention: a linear mixer is sharded with the same words."""
        return {
            "attention.qkv": Matrix(
                hidden, self.in_features, "attention", unit_n=self.in_features // self.heads, vectors=self.vectors
            ),
            "attention.out": Matrix(self.out_features, hidden, "attention", unit_k=self.out_features // self.heads),
        }


Mixer = Attention | LatentAttention | LinearMixer


@dataclass(frozen=True, slots=True)
class DenseFfn:
    """A feed-forward block of one intermediate width; gated ones have two up matrices."""

    width: int
    gated: bool = True
    bias: bool = False

    def operators(self, hidden: int) -> dict[str, Matrix]:
        """Weights by operator name; gate and up count together."""
        fan = self.width * (2 if self.gated else 1)
        return {
            "ffn.up": Matrix(hidden, fan, "ffn", vectors=fan if self.bias else 0),
            "ffn.down": Matrix(self.width, hidden, "ffn", vectors=hidden if self.bias else 0),
        }


@dataclass(frozen=True, slots=True)
class MoeFfn:
    """A mixture of experts, with the shared expert (or parallel dense block) that runs beside it.

    Attributes:
        width: intermediate width of one expert.
        shared_width: intermediate width of all shared experts together, 0 for none.
        idle_experts: experts of the router that compute nothing (zero or identity experts).
        vectors: further parameters (router biases, the shared expert's gate).
    """

    experts: int
    top_k: int
    width: int
    gated: bool = True
    bias: bool = False
    shared_width: int = 0
    shared_gated: bool = True
    idle_experts: int = 0
    vectors: int = 0

    @property
    def mean_top_k(self) -> float:
        """Computing experts a token uses on average."""
        return self.top_k * self.experts / (self.experts + self.idle_experts)

    def operators(self, hidden: int) -> dict[str, Matrix]:
        """Weights by operator name; those of ``experts.*`` are one expert's."""
        fan = self.width * (2 if self.gated else 1)
        operators = {
            "router": Matrix(hidden, self.experts + self.idle_experts, "router", vectors=self.vectors),
            "experts.up": Matrix(hidden, fan, "experts", vectors=fan if self.bias else 0),
            "experts.down": Matrix(self.width, hidden, "experts", vectors=hidden if self.bias else 0),
        }
        if self.shared_width:
            shared = self.shared_width * (2 if self.shared_gated else 1)
            operators["shared.up"] = Matrix(hidden, shared, "shared")
            operators["shared.down"] = Matrix(self.shared_width, hidden, "shared")
        return operators


Ffn = DenseFfn | MoeFfn


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: a mixer, a feed-forward part, or both; ``vectors`` counts its norms' parameters."""

    mixer: Mixer | None
    ffn: Ffn | None
    vectors: int = 0

    @property
    def mixer_name(self) -> str:
        """``attention``, ``linear`` or an empty string."""
        if self.mixer is None:
            return ""
        return "linear" if isinstance(self.mixer, LinearMixer) else "attention"

    @property
    def ffn_name(self) -> str:
        """``dense``, ``moe`` or an empty string."""
        if self.ffn is None:
            return ""
        return "moe" if isinstance(self.ffn, MoeFfn) else "dense"

    def operators(self, hidden: int) -> dict[str, Matrix]:
        """Weights of the layer by operator name."""
        mixer = self.mixer.operators(hidden) if self.mixer else {}
        return mixer | (self.ffn.operators(hidden) if self.ffn else {})

    def parameters(self, hidden: int) -> int:
        """All parameters of the layer."""
        copies = self.ffn.experts if isinstance(self.ffn, MoeFfn) else 1
        return self.vectors + sum(
            (matrix.k * matrix.n + matrix.vectors) * (copies if matrix.group == "experts" else 1)
            for matrix in self.operators(hidden).values()
        )
