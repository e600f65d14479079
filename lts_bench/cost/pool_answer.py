"""The answer to one strategy of two pools, from its sums."""

from __future__ import annotations

from typing import Any, NamedTuple

from lts_bench.cost.compiled import formula
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.pool_formulas import Decode, Link, Prefill, best_point, ttft_seconds
from lts_bench.cost.program import FloatArray, IntArray, Program
from lts_bench.cost.steady import Number, Rules

IN_FLIGHT = 2
"""Prompts of a prefill rank and microbatch whose KV has room: one that is computed, one that is on its way."""
LONE, EVERY, LONE_LATENCY, EVERY_LATENCY, CAPACITY, BYTES, LEGAL = range(7)
"""What is known of a prefill pool: seconds as in ``Prefill``, most prompts in flight, bytes, 1 where it is legal."""
COLUMNS = 7
BATCH, RATE = range(2)
"""What is told of an operating point beside the answer."""


class Pools(NamedTuple):
    """All that an evaluation of disaggregated serving reads.

    Attributes:
        prefill, decode: programs of either pool by itself.
        pairs: (n, 2) degrees of either.
        alone: (n,) seconds of a prompt's transfer by itself, ``occupied`` (n,) of the whole link.
        rules: the limits.
        osl: tokens of an answer.
        npus: devices that the score divides by.
    """

    prefill: Program
    decode: Program
    pairs: IntArray
    alone: FloatArray
    occupied: FloatArray
    rules: Rules
    osl: float
    npus: float


@formula
def over(value: Number, limit: float) -> Any:
    """Relative violation of a limit."""
    return max(value / limit - 1, 0.0)


@formula
def fill(
    answer: Any, point: FloatArray, known: FloatArray, prefill: Prefill, link: Link, decode: Decode, rules: Rules,
    batches: FloatArray, filled: int, td: FloatArray, held: FloatArray, buffers: float, osl: float, npus: float,
) -> None:  # fmt: skip
    """Fill one answer; ``point`` gets b and the rate.

    Where no batch size is feasible, the violations are those of a sequence by itself: b = 1, without a queue.

    Args:
        answer: a record of ``ANSWER``, zero.
        point: (2,).
        known: (COLUMNS,) of the prefill pool, which is legal as the decode pool is.
        prefill: likewise.
        link: between the pools.
        decode: the other pool.
        rules: the limits.
        batches: (phases,) batch sizes.
        filled: phases that ``td`` (phases,) holds.
        td: seconds of a decode round.
        held: (stages, MEMORY) bytes of the decode pool's stages.
        buffers: bytes beside.
        osl: tokens of an answer.
        npus: devices that the score divides by.
    """
    rate, batch, seconds = 0.0, 0.0, 0.0
    if known[CAPACITY] >= IN_FLIGHT:
        rate, batch, seconds = best_point(batches, FIRST_RUNG, filled, td, prefill, link, decode, rules)
    found = rate > 0
    if not found:
        batch, seconds = batches[FIRST_RUNG], td[FIRST_RUNG]
    memory = known[BYTES]
    for stage in range(len(held)):
        memory = max(memory, held[stage, 0] + max(batch * decode.pp * held[stage, 1], held[stage, 2]) + buffers)
    answer.legal, answer.feasible, answer.goodput_per_npu = True, found, rate * osl / npus
    answer.ttft_s = ttft_seconds(prefill, link, decode.pp, seconds, rate, rules.quantile, rules.queue_factor)
    answer.tpot_s, answer.memory_bytes = seconds, memory
    if not found:
        answer.violation[0] = over(memory, rules.memory_limit)
        answer.violation[1] = over(answer.ttft_s, rules.ttft_limit)
        answer.violation[2] = over(seconds, rules.tpot_limit)
    point[BATCH], point[RATE] = batch, rate
