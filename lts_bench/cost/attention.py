"""The attention core: softmax attention, latent attention and linear recurrences, in prefill and in decode.

Splits: ``heads`` splits KV heads, replicated where there are fewer than devices. ``batch`` splits sequences in decode;
in prefill it splits the prompt's tokens, all-gathers K and V, and sends the prompt's KV to the sequence's owner.
``kv_sequence`` is context-parallel prefill; decode combines partial softmax results and the KV stays split.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective
from lts_bench.cost.kernels import (
    decode_attention_seconds,
    latent_attention_seconds,
    prefill_attention_seconds,
    streaming_seconds,
)
from lts_bench.cost.nodes import ACTIVATION_BYTES, KV_FULL, KV_MEAN, View
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.specs.formats import DTYPE_BYTES
from lts_bench.specs.layers import Attention, LatentAttention, Layer, LinearMixer

FloatArray = NDArray[np.float64]


def core_node(view: View, layer: Layer) -> tuple[FloatArray, FloatArray]:
    """Time and memory of a layer's core."""
    mixer = layer.mixer
    if isinstance(mixer, LinearMixer):
        return _recurrence(view, mixer)
    assert isinstance(mixer, Attention | LatentAttention)
    time = np.empty((len(view.mesh), len(view.choices), len(view.setting.phases)))
    time[..., :FIRST_RUNG] = _prefill(view, mixer)
    time[..., FIRST_RUNG:] = _decode(view, mixer)
    return time, _cache(view, mixer)


def _window(mixer: Attention | LatentAttention) -> float:
    return float(mixer.window) if isinstance(mixer, Attention) and mixer.window else np.inf


def _widths(mixer: Attention | LatentAttention, absorbed: bool) -> tuple[int, int]:
    """(query-key, value) width of a head; absorbed MLA works on the latent."""
    if isinstance(mixer, Attention):
        return mixer.head_dim, mixer.head_dim
    if absorbed:
        return mixer.kv_rank + mixer.rope_dim, mixer.kv_rank
    return mixer.nope_dim + mixer.rope_dim, mixer.value_dim


def _kv_elements(view: View, mixer: Attention | LatentAttention) -> FloatArray:
    """(keys, choices) cached elements of a token that a device reads; a latent has no heads to split."""
    if isinstance(mixer, LatentAttention):
        return np.full((len(view.mesh), len(view.choices)), float(mixer.kv_elements))
    return 2.0 * mixer.head_dim * np.ceil(mixer.kv_heads / view.split("heads"))


def _prefill(view: View, mixer: Attention | LatentAttention) -> FloatArray:
    """(keys, choices, 1) causal attention on whole or split tokens, K and V gathered over split ones."""
    setting = view.setting
    isl = float(setting.phases.workload.isl)
    qk, value = _widths(mixer, absorbed=False)
    seen = isl * min(_window(mixer), isl) if _window(mixer) < isl else isl * isl / 2
    heads = np.ceil(mixer.heads / view.split("heads"))
    flops = 2 * heads * seen * (qk + value) / view.split("batch", "kv_sequence")
    time = prefill_attention_seconds(setting.cluster.chip, flops)[..., None]
    kv_bytes = (isl * _kv_elements(view, mixer) * ACTIVATION_BYTES)[..., None]
    if isinstance(mixer, Attention):
        # latent attention gathers its latents before expanding them: that is a conversion, not part of the core
        gathered = view.collective(Collective.ALL_GATHER, kv_bytes, "batch", "kv_sequence")
        time = time + gathered[..., :1]
    handed = view.collective(Collective.ALL_TO_ALL, kv_bytes / view.split("batch")[..., None], "batch")
    return time + handed[..., :1]


def _decode(view: View, mixer: Attention | LatentAttention) -> FloatArray:
    """(keys, choices, rungs) one token a sequence; partial results of a split cache carry two statistics a head."""
    setting = view.setting
    phases = setting.phases
    context = min(phases.mean_context, _window(mixer))
    sequences = np.ceil(phases.batches / view.split("batch")[:, :, None])
    heads = np.ceil(mixer.heads / view.split("heads"))[..., None]
    local = context / view.split("kv_sequence")[..., None]
    qk, value = _widths(mixer, absorbed=True)
    flops = 2 * sequences * heads * local * (qk + value)
    kv_type = DTYPE_BYTES[setting.model.precision.kv]
    kv_bytes = sequences * local * _kv_elements(view, mixer)[..., None] * kv_type
    kernel = latent_attention_seconds if isinstance(mixer, LatentAttention) else decode_attention_seconds
    prompts = np.zeros((*heads.shape[:2], FIRST_RUNG))
    statistics = np.concatenate((prompts, sequences * heads * 2 * 4.0), axis=2)
    combined = view.collective(Collective.ALL_REDUCE, statistics, "kv_sequence")
    return kernel(setting.cluster.chip, kv_bytes, flops) + combined[..., FIRST_RUNG:]


def _cache(view: View, mixer: Attention | LatentAttention) -> FloatArray:
    """(keys, choices, 4) KV bytes of one sequence on one device."""
    setting = view.setting
    window = np.inf if setting.engine.window_kv == "full_pages" else _window(mixer)
    full = setting.phases.full_context
    mean = full if setting.engine.kv_reservation == "full" else setting.phases.mean_context
    token = _kv_elements(view, mixer) * DTYPE_BYTES[setting.model.precision.kv] * (mixer.kv_elements > 0)
    memory = np.zeros((len(view.mesh), len(view.choices), 4))
    memory[..., KV_MEAN] = token * min(mean, window) / view.split("batch", "kv_sequence")
    memory[..., KV_FULL] = token * min(full, window) / view.split("kv_sequence")
    return memory


def _recurrence(view: View, mixer: LinearMixer) -> tuple[FloatArray, FloatArray]:
    """A recurrence reads and writes its state once a step; a prompt also multiplies every token with it.

    A prompt whose tokens are split passes the state from part to part.
    """
    setting = view.setting
    phases, chip = setting.phases, setting.cluster.chip
    state = mixer.state_bytes / view.split("heads")
    sequences = np.ceil(phases.sequences / view.split("batch")[:, :, None])
    moved = 2 * sequences * state[..., None] + _tokens(view) * mixer.in_features * ACTIVATION_BYTES
    flops = 4 * _tokens(view) * (mixer.state_elements / view.split("heads"))[..., None]
    peak = chip.kernels.prefill_attention.compute_efficiency * chip.peak_flops_per_s["bf16"]
    floor = chip.kernels.small_kernel_us * 1e-6
    time = floor + np.maximum(streaming_seconds(chip, moved), flops / peak)
    states = (state * view.split("batch"))[..., None]
    passed = view.collective(Collective.ALL_GATHER, states, "batch")
    time[..., :FIRST_RUNG] += passed[..., :FIRST_RUNG]
    memory = np.zeros((*state.shape, 4))
    memory[..., KV_MEAN] = state / view.split("batch")
    memory[..., KV_FULL] = state
    return time, memory


def _tokens(view: View) -> FloatArray:
    """(keys, choices, phases) tokens a device works on: ``batch`` splits tokens in both phases."""
    tokens: FloatArray = np.ceil(view.setting.phases.tokens / view.split("batch")[:, :, None])
    return tokens
