"""An engine profile: what a serving engine adds to the time and the memory of the kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from lts_bench.specs.builtin import Shelf
from lts_bench.specs.loading import AtLeastOne, Count, NonNegative, Positive, Share, Text, ZeroToOne


class EngineErrors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Standard errors of a profile's constants of the same names, as shares of them; assumed where left out.

    Attributes:
        expert_imbalance: of what exceeds 1.
        overlap: of the share that is not hidden, 1 − overlap.
    """

    step_overhead_us: NonNegative = 0.5
    sequence_overhead_us: NonNegative = 0.5
    small_kernels_per_layer: NonNegative = 0.3
    small_kernels_per_moe_layer: NonNegative = 0.5
    expert_imbalance: NonNegative = 0.5
    overlap: NonNegative = 0.1


class Engine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an engine schedules and what its host costs.

    Attributes:
        step_overhead_us: host time of a step that no kernel hides.
        sequence_overhead_us: host time of a step for each sequence.
        small_kernels_per_layer: norms, activations and the like of one layer.
        small_kernels_per_moe_layer: added in a layer with experts (top-k, permutation).
        kv_reservation: KV cache held for a sequence, its mean length or isl + osl.
        sliding_window: what becomes of KV beyond a layer's window: its pages are freed; they are kept; or the window is
            ignored, attention reads all.
        mixed_prefill: prompts are prefilled in the steps that decode, instead of steps of their own.
        coordinated_admission: data-parallel ranks prefill in the same steps.
        all_reduce: its own all-reduce kernels, a name in a cluster's ``custom_all_reduce``; None for the vendor's.
        overlap: share of a collective hidden behind the compute next to it.
        max_batch: decoding sequences of a rank.
        max_prefill_tokens: tokens of a prefill step, which size the buffers.
        expert_imbalance: most loaded rank ÷ mean where experts are spread.
        expert_popularity_shape: shape of the gamma distribution of the experts' popularity; uniform where left out.
        memory_fraction: share of the usable memory that the engine takes.
        request_overhead_ms: time of a request outside the model (HTTP, tokenizer, scheduling), in its TTFT.
        prompt_token_overhead_us: the same for every token of the prompt.
        burst: share of the other clients whose prompts a prompt finds in its way in a closed loop, as sequences that
            began together end together.
        relative_error: how far the constants may be off.
    """

    name: Text
    step_overhead_us: NonNegative
    sequence_overhead_us: NonNegative
    small_kernels_per_layer: NonNegative
    small_kernels_per_moe_layer: NonNegative
    kv_reservation: Literal["mean", "full"]
    sliding_window: Literal["freed", "kept", "ignored"]
    mixed_prefill: bool = False
    coordinated_admission: bool = False
    all_reduce: Text | None = None
    overlap: ZeroToOne = 0.0
    max_batch: Count = 2048
    max_prefill_tokens: Count = 8192
    expert_imbalance: AtLeastOne = 1.3
    expert_popularity_shape: Positive | None = None
    memory_fraction: Share = 0.9
    request_overhead_ms: NonNegative = 0.0
    prompt_token_overhead_us: NonNegative = 0.0
    burst: NonNegative = 0.0

    def request_seconds(self, prompt_tokens: float) -> float:
        """Time of a request outside the model."""
        return self.request_overhead_ms * 1e-3 + self.prompt_token_overhead_us * 1e-6 * prompt_tokens

    relative_error: EngineErrors = EngineErrors()


_SHELF = Shelf("engine", Engine, "lts_bench.data", "engines")


def list_engines() -> list[str]:
    """Names of the built-in engine profiles."""
    return _SHELF.names()


def load_engine(ref: str | Path) -> Engine:
    """Load a built-in profile by name, or a YAML file by path."""
    return _SHELF.load(ref)
