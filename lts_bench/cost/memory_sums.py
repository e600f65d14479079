"""The compiled sums of memory: bytes of every stage of a pipeline, and the batch that they leave room for."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import inlined
from lts_bench.cost.gathering import Sums
from lts_bench.cost.nodes import BUFFER
from lts_bench.cost.program import FloatArray, Index, Program
from lts_bench.cost.sorting import Strategies
from lts_bench.cost.steady import larger, memory_bytes, sequences_held
from lts_bench.cost.vectors import bytes_at, bytes_of, lane, put_bytes


@inlined
def sum_operators(program: Program, its: Index, given: Strategies, n: Index, sums: Sums) -> float:
    """Fill the bytes of every block; bytes of the largest buffer."""
    rows, codes, one = program.operators, given.codes, np.uint64(1)
    largest = bytes_of(0.0)
    for block in range(np.uint64(len(sums.block_bytes))):
        own = bytes_of(0.0)
        for k in range(np.uint64(rows.first[block]), np.uint64(rows.first[block + one])):
            its_bytes = bytes_at(program.memory, np.uint64(rows.base[its, k] + codes[n, rows.source[k]]))
            own, largest = own + its_bytes, larger(its_bytes, largest)
        put_bytes(sums.block_bytes, block, own)
    return float(lane(largest, np.uint64(BUFFER)))


@inlined
def sum_memory(program: Program, its: Index, given: Strategies, n: Index, sums: Sums) -> tuple[float, float]:
    """Fill the bytes of every stage; bytes beside them, and the largest b that the memory holds."""
    stored, codes, pp, held = program.stored, given.codes, program.pp[its], sums.stage_bytes
    buffers = sum_operators(program, its, given, n, sums) + program.fixed_bytes
    embed, head = np.uint64(codes.shape[1] - 2), np.uint64(codes.shape[1] - 1)
    alike = stored[codes[n, embed]] == stored[codes[n, head]]
    begin, room, capacity = np.uint64(program.stage_base[its]), program.rules.memory_limit - buffers, np.inf
    for stage in range(np.uint64(program.stage_count[its])):
        total = bytes_of(0.0)
        for block in range(np.uint64(len(sums.block_bytes))):
            tied, apart = program.stage_memory[begin + stage, block], program.stage_rows[begin + stage, block]
            total = total + bytes_at(sums.block_bytes, block) * (tied if alike else apart)
        put_bytes(held, stage, total)
        capacity = min(capacity, sequences_held(held[stage, 0], held[stage, 1], held[stage, 2], pp, room))
    return buffers, capacity


@inlined
def fullest(held: FloatArray, count: Index, sequences: float) -> float:
    """Bytes of the fullest of so many stages, buffers aside."""
    most = 0.0
    for row in range(np.uint64(count)):
        most = max(most, memory_bytes(held[row, 0], held[row, 1], held[row, 2], sequences))
    return most
