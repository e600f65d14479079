"""The compiled sums of memory: bytes of every stage of a pipeline, and the batch that they leave room for."""

from __future__ import annotations

import numpy as np

from lts_bench.cost.compiled import compiled
from lts_bench.cost.gathering import Strategies, Sums
from lts_bench.cost.lines import add_bytes, add_two_bytes
from lts_bench.cost.nodes import BUFFER
from lts_bench.cost.program import Program
from lts_bench.cost.steady import sequences_held


@compiled
def add_operators(program: Program, block: int, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Add the memory of a block's operators."""
    rows, table = program.operators, program.memory
    begin, source_of, base, own, buffers = rows.first, rows.source, rows.base, sums.block_bytes, sums.buffers
    codes, degrees = given.codes, given.degrees
    end = np.uint64(begin[block + 1])
    for k in range(np.uint64(begin[block]), end, np.uint64(2)):
        last = min(k + np.uint64(1), end - np.uint64(1))
        source, last_source = source_of[k], source_of[last]
        for n in range(np.uint64(many)):
            at = np.uint64(first) + n
            row, last_row = base[degrees[at], k] + codes[at, source], base[degrees[at], last] + codes[at, last_source]
            if last > k:
                add_two_bytes(own, n, 1.0, table, row, last_row)
            else:
                add_bytes(own, n, 1.0, table, row)
            buffers[n] = max(buffers[n], max(table[row, BUFFER], table[last_row, BUFFER]))


@compiled
def add_block_bytes(program: Program, block: int, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Count a block in every stage that holds it."""
    stored, begin, count = program.stored, program.stage_base, program.stage_count
    apart, tied, own, held = program.stage_rows, program.stage_memory, sums.block_bytes, sums.stage_bytes
    codes, degrees = given.codes, given.degrees
    embed, head = np.uint64(codes.shape[1] - 2), np.uint64(codes.shape[1] - 1)
    stages = np.uint64(len(held) // len(own))
    for n in range(np.uint64(many)):
        at = np.uint64(first) + n
        alike = stored[codes[at, embed]] == stored[codes[at, head]]
        row = np.uint64(begin[degrees[at]])
        for stage in range(np.uint64(count[degrees[at]])):
            counted = tied[row + stage, block] if alike else apart[row + stage, block]
            add_bytes(held, n * stages + stage, counted, own, n)


@compiled
def sum_memory(program: Program, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Fill the bytes of every stage and the capacity of ``many`` strategies from ``first`` on."""
    held, buffers, own = sums.stage_bytes, sums.buffers, sums.block_bytes
    stages = len(held) // len(own)
    held[: many * stages] = 0.0
    buffers[:many] = 0.0
    for block in range(program.totals.shape[1]):
        own[:many] = 0.0
        add_operators(program, block, given, first, many, sums)
        add_block_bytes(program, block, given, first, many, sums)
    degrees, pp, count, capacity = given.degrees, program.pp, program.stage_count, sums.capacity
    for n in range(np.uint64(many)):
        its = degrees[np.uint64(first) + n]
        buffers[n] += program.fixed_bytes
        capacity[n] = np.inf
        for at in range(n * np.uint64(stages), n * np.uint64(stages) + np.uint64(count[its])):
            room = program.rules.memory_limit - buffers[n]
            capacity[n] = min(capacity[n], sequences_held(held[at, 0], held[at, 1], held[at, 2], pp[its], room))
