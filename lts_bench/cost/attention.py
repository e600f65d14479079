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
    latent_decode_seconds,
    prefill_attention_seconds,
    streaming_seconds,
)
from lts_bench.cost.nodes import ACTIVATION_BYTES, KV_FULL, KV_MEAN, View
from lts_bench.specs.formats import DTYPE_BYTES
from lts_bench.specs.layers import Attention, LatentAttention, Layer, LinearMixer

FloatArray = NDArray[np.float64]
STATISTIC_BYTES = DTYPE_BYTES["fp32"]
"""A maximum, a sum or a mean square, kept in 32 bit."""


def core_node(view: View, layer: Layer) -> tuple[FloatArray, FloatArray]:
    """Time and memory of a layer's core."""
    mixer = layer.mixer
    if isinstance(mixer, LinearMixer):
        return _recurrence(view, mixer)
    assert isinstance(mixer, Attention | LatentAttention)
    phases = view.setting.phases
    time = np.zeros((len(view.mesh), len(view.choices), len(phases)))
    for sequences, part in ((phases.prefilled, _prefill), (phases.decoded, _decode)):
        time[..., sequences > 0] += part(view, mixer)[..., sequences > 0]
    if isinstance(mixer, Attention) and mixer.joint_norm:
        time += view.collective(Collective.ALL_REDUCE, 2 * STATISTIC_BYTES * _tokens(view), "heads")
    return time, _cache(view, mixer)


def _window(view: View, mixer: Attention | LatentAttention) -> float:
    if isinstance(mixer, LatentAttention) or not mixer.window or view.setting.engine.sliding_window == "ignored":
        return np.inf
    return float(mixer.window)


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
    """(keys, choices, phases) causal attention on whole or split tokens, K and V gathered over split ones."""
    setting = view.setting
    chip, prompts, isl = setting.cluster.chip, setting.phases.prefilled, setting.phases.prompt_tokens
    reach = np.minimum(_window(view, mixer), isl)
    constants, kv_heads = chip.kernels.latent_prefill, mixer.heads
    if isinstance(mixer, Attention):
        constants, kv_heads = chip.kernels.prefill_attention, mixer.kv_heads
    time = prefill_attention_seconds(
        chip,
        constants,
        heads=prompts * np.ceil(mixer.heads / view.split("heads"))[..., None],
        kv_heads=prompts * np.ceil(kv_heads / view.split("heads"))[..., None],
        queries=isl / view.split("batch", "kv_sequence")[..., None],
        keys=reach - reach**2 / (2 * isl),
        longest=reach,
        width=sum(_widths(mixer, absorbed=False)),
    )
    kv_bytes = prompts * (isl * _kv_elements(view, mixer)[..., None] * ACTIVATION_BYTES)
    if isinstance(mixer, Attention):
        # latent attention gathers its latents before expanding them: that is a conversion, not part of the core
        time = time + view.collective(Collective.ALL_GATHER, kv_bytes, "batch", "kv_sequence")
    return time + view.collective(Collective.ALL_TO_ALL, kv_bytes / view.split("batch")[..., None], "batch")


def _decode(view: View, mixer: Attention | LatentAttention) -> FloatArray:
    """(keys, choices, phases) one token a sequence; partial results of a split cache carry two statistics a head."""
    setting = view.setting
    phases, chip = setting.phases, setting.cluster.chip
    sequences = np.ceil(phases.decoded / view.split("batch")[:, :, None])
    heads = sequences * np.ceil(mixer.heads / view.split("heads"))[..., None]
    local = np.minimum(phases.contexts, _window(view, mixer)) / view.split("kv_sequence")[..., None]
    width = sum(_widths(mixer, absorbed=True))
    flops = 2 * heads * local * width
    kv_bytes = sequences * local * _kv_elements(view, mixer)[..., None] * DTYPE_BYTES[setting.model.precision.kv]
    if isinstance(mixer, LatentAttention):
        time = latent_decode_seconds(chip, kv_bytes=kv_bytes, flops=flops, heads=heads, width=width, context=local)
    else:
        blocks = sequences * np.ceil(mixer.kv_heads / view.split("heads"))[..., None]
        time = decode_attention_seconds(chip, kv_bytes=kv_bytes, flops=flops, blocks=blocks, context=local)
    return time + view.collective(Collective.ALL_REDUCE, 2 * STATISTIC_BYTES * heads, "kv_sequence")


def _cache(view: View, mixer: Attention | LatentAttention) -> FloatArray:
    """(keys, choices, 4) KV bytes of one sequence on one device."""
    setting = view.setting
    window = _window(view, mixer) if setting.engine.sliding_window == "freed" else np.inf
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
    time += np.where(phases.prefilled > 0, passed, 0.0)
    memory = np.zeros((*state.shape, 4))
    memory[..., KV_MEAN] = state / view.split("batch")
    memory[..., KV_FULL] = state
    return time, memory


def _tokens(view: View) -> FloatArray:
    """(keys, choices, phases) tokens a device works on: ``batch`` splits tokens in both phases."""
    tokens: FloatArray = np.ceil(view.setting.phases.tokens / view.split("batch")[:, :, None])
    return tokens
