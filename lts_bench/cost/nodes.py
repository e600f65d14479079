"""An operator's own time and memory on tensor-parallel meshes, for every choice and phase."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, seconds
from lts_bench.cost.kernels import ACTIVATION_BYTES as ACTIVATION_BYTES
from lts_bench.cost.kernels import gemm_rate, streaming_seconds
from lts_bench.cost.mesh import Mesh
from lts_bench.cost.network import Network
from lts_bench.cost.phases import Phases
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.engine import Engine
from lts_bench.specs.formats import DTYPE_BYTES, WeightFormat
from lts_bench.specs.layers import Attention, DenseFfn, Layer, Matrix
from lts_bench.specs.model import Model

FloatArray = NDArray[np.float64]
WEIGHTS, KV_MEAN, KV_FULL, BUFFER = range(4)
"""Columns of a memory row, bytes of one device: weights, a sequence's KV and state in the mean and at full length
(the latter whole on one device where sequences are split), the largest live activation of a prefill step."""


@dataclass(frozen=True)
class Setting:
    """What every price depends on, the degrees and the sharding aside.

    Attributes:
        redundant_experts: copies of the most loaded experts.
        padding: whether splits that do not divide are padded instead of illegal.
    """

    model: Model
    cluster: Cluster
    engine: Engine
    phases: Phases
    redundant_experts: int = 0
    padding: bool = False

    @cached_property
    def network(self) -> Network:
        """The cluster's networks under the engine's communication library."""
        return Network(self.cluster, self.engine.all_reduce)


@dataclass(frozen=True)
class View:
    """One operator's choices on the keys of a mesh.

    Attributes:
        choices: letters of every choice, one for each axis of the mesh.
    """

    setting: Setting
    mesh: Mesh
    choices: tuple[tuple[str, ...], ...]

    def split(self, *letters: str) -> FloatArray:
        """(keys, choices) devices that split the operator on any of the letters."""
        chosen = np.array([[letter in letters for letter in choice] for choice in self.choices])
        product: FloatArray = np.where(chosen[None], self.mesh.sizes[:, None, :], 1.0).prod(axis=2)
        return product

    def collective(self, kind: Collective, n: FloatArray, *letters: str) -> FloatArray:
        """(keys, choices, phases) time of ``kind`` on ``n`` bytes over the axes that carry one of the letters.

        ``n`` is broadcast to (keys, choices, phases).
        """
        shape = (len(self.mesh), len(self.choices), len(self.setting.phases))
        sent, time = np.broadcast_to(n, shape), np.zeros(shape)
        for column, choice in enumerate(self.choices):
            axes = tuple(axis for axis, letter in enumerate(choice) if letter in letters)
            if axes:
                time[:, column] = seconds(self.mesh.regimes(axes), kind, sent[:, column])
        return time

    @cached_property
    def tokens(self) -> FloatArray:
        """(keys, choices, phases) local tokens."""
        return np.ceil(self.setting.phases.tokens / self.split("M")[:, :, None])


def matmul_seconds(view: View, weights: WeightFormat, n: FloatArray, k: FloatArray, tokens: FloatArray) -> FloatArray:
    """(keys, choices, phases) time of a product with local ``n`` × ``k`` weights, (keys, choices) both."""
    rate = gemm_rate(view.setting.cluster.chip, weights)
    weight_bytes = n * k * mean_weight_bytes(weights)
    return rate.seconds(tokens, n[:, :, None], k[:, :, None], weight_bytes[:, :, None])


def mean_weight_bytes(weights: WeightFormat) -> float:
    """Bytes of one weight with its share of the scales."""
    scale = weights.scale_bytes / (weights.block[0] * weights.block[1]) if weights.block else 0.0
    return DTYPE_BYTES[weights.dtype] + scale


def local_features(size: int, unit: int, degree: FloatArray, block: int) -> FloatArray:
    """Local features of ``size``: whole units, then whole quantisation blocks where it is split."""
    local = np.ceil(size / unit / degree) * unit
    padded: FloatArray = np.where(degree > 1, np.ceil(local / block) * block, size)
    return padded


def _halves(view: View, matrix: Matrix, layer: Layer | None) -> int:
    """2 where gate and up projection lie in one matrix: each is split, and padded, on its own."""
    ffn = layer.ffn if layer else None
    if ffn is None or matrix.group not in ("ffn", "shared") or matrix.k != view.setting.model.hidden:
        return 1
    width = ffn.width if isinstance(ffn, DenseFfn) else ffn.shared_width
    return 2 if matrix.n == 2 * width else 1


def local_shape(view: View, matrix: Matrix, layer: Layer | None) -> tuple[FloatArray, FloatArray]:
    """(keys, choices) local output and input features of a weight."""
    block = view.setting.model.precision.weights(matrix.group).block or (1, 1)
    over_n, over_k = view.split("N", "vocabulary"), view.split("K", "hidden")
    k = local_features(matrix.k, matrix.unit_k, over_k, block[1])
    mixer = layer.mixer if layer else None
    if isinstance(mixer, Attention) and matrix.unit_n == mixer.head_dim and matrix.unit_n > 1:
        kv = 2 * mixer.head_dim * mixer.kv_heads if mixer.holds_kv else 0
        query = local_features(matrix.n - kv, matrix.unit_n, over_n, block[0])
        return query + kv / mixer.kv_heads * np.ceil(mixer.kv_heads / over_n), k
    halves = _halves(view, matrix, layer)
    return halves * local_features(matrix.n // halves, matrix.unit_n, over_n, block[0]), k


def matmul_node(view: View, layer: Layer, matrix: Matrix) -> tuple[FloatArray, FloatArray]:
    """Time and memory of a projection."""
    weights = view.setting.model.precision.weights(matrix.group)
    n, k = local_shape(view, matrix, layer)
    return matmul_seconds(view, weights, n, k, view.tokens), _weight_memory(view, weights, n, k, matrix.vectors)


def _weight_memory(view: View, weights: WeightFormat, n: FloatArray, k: FloatArray, vectors: int) -> FloatArray:
    """(keys, choices, 4) weights and the output of a prefill step."""
    memory = np.zeros((*n.shape, 4))
    memory[..., WEIGHTS] = n * k * mean_weight_bytes(weights) + vectors * ACTIVATION_BYTES
    memory[..., BUFFER] = _buffered_tokens(view) * (n + k) * ACTIVATION_BYTES
    return memory


def _buffered_tokens(view: View) -> FloatArray:
    """(keys, choices) local tokens of a prefill step."""
    setting = view.setting
    tokens: FloatArray = np.ceil(min(setting.phases.workload.isl, setting.engine.max_prefill_tokens) / view.split("M"))
    return tokens


def stream_node(view: View, layer: Layer, branches: int) -> tuple[FloatArray, FloatArray]:
    """Norm and residual sum of one branch: memory traffic, small launches, statistics where features are split.

    Three passes of the local activation; a norm over split features all-reduces one 4-byte value a token.
    """
    setting = view.setting
    model, engine = setting.model, setting.engine
    local = view.tokens * (model.hidden / view.split("N"))[:, :, None] * ACTIVATION_BYTES
    launches = engine.small_kernels_per_layer + (engine.small_kernels_per_moe_layer if layer.ffn_name == "moe" else 0)
    time = streaming_seconds(setting.cluster.chip, 3 * local)
    time = time + launches / branches * setting.cluster.chip.kernels.small_kernel_us * 1e-6
    time = time + view.collective(Collective.ALL_REDUCE, 4.0 * view.tokens, "N")
    memory = np.zeros((*time.shape[:2], 4))
    memory[..., WEIGHTS] = layer.vectors * ACTIVATION_BYTES / branches
    return time, memory


def embed_node(view: View) -> tuple[FloatArray, FloatArray]:
    """The embedding: rows read for every token; its vocabulary is padded to the group."""
    setting = view.setting
    weights = setting.model.precision.weights("embed")
    n, k = _lookup_shape(view)
    read = view.tokens * n[:, :, None] * mean_weight_bytes(weights)
    floor = setting.cluster.chip.kernels.small_kernel_us * 1e-6
    time = streaming_seconds(setting.cluster.chip, 2 * read) + floor
    memory = _weight_memory(view, weights, n, k, 0)
    memory[..., BUFFER] = _buffered_tokens(view) * n * ACTIVATION_BYTES
    return time, memory


VOCABULARY_ROWS = 64
"""Rows of the vocabulary that a device's share is padded to, as serving engines do."""


def _lookup_shape(view: View) -> tuple[FloatArray, FloatArray]:
    """(keys, choices) local hidden features and padded vocabulary rows."""
    model = view.setting.model
    over = view.split("vocabulary")
    rows = np.where(over > 1, np.ceil(model.vocab / over / VOCABULARY_ROWS) * VOCABULARY_ROWS, model.vocab)
    return np.ceil(model.hidden / view.split("hidden")), rows


def head_node(view: View) -> tuple[FloatArray, FloatArray]:
    """The language-model head on each sequence's last token, without the gather of its logits."""
    setting = view.setting
    weights = setting.model.precision.weights("head")
    hidden, rows = _lookup_shape(view)
    sequences = np.ceil(setting.phases.sequences / view.split("M")[:, :, None])
    time = matmul_seconds(view, weights, rows, hidden, sequences)
    memory = _weight_memory(view, weights, rows, hidden, 0)
    memory[..., BUFFER] = rows * ACTIVATION_BYTES
    return time, memory
