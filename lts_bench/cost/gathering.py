"""The compiled gathering: strategies in the order of the tables sum their rows, batch after batch, edge after edge.

A batch goes through one edge after the other, so that the edge's rows and the batch's sums stay in the cache. Arrays
are bound to local names before a loop: each look-up in a named tuple would count references.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled
from lts_bench.cost.edge_sums import add_rows
from lts_bench.cost.lines import add_line, begin_line
from lts_bench.cost.phases import LONE_PREFILL, PREFILL
from lts_bench.cost.program import FloatArray, Index, IndexArray, IntArray, Program
from lts_bench.cost.rows import LINE, MEMORY

BATCH = 384
"""Strategies that are summed together."""


class Strategies(NamedTuple):
    """Vectors in the order of the tables.

    Attributes:
        codes: (n, decisions) choices, later positions on the mesh.
        degrees: (n,) degrees.
        vector: (n,) which vector it is.
        inside: (n,) whether every entry is in range; degrees and codes are 0 where not.
    """

    codes: IndexArray
    degrees: IndexArray
    vector: IndexArray
    inside: NDArray[np.bool_]


class Sums(NamedTuple):
    """Sums of a batch.

    Attributes:
        live: (n,) the strategies that are summed, ascending, first.
        block_bytes: (n, MEMORY) of one block, scratch; ``stage_bytes`` (n · stages, MEMORY) of every distinct stage.
        buffers: (n,) bytes beside the stages'.
        capacity: (n,) largest b that the memory holds.
        block: (n, LINE) seconds of one block, scratch; ``stage`` (n · stages, LINE) of every distinct stage and
            ``total`` (n, LINE) of all stages in one line of phases.
        decode: (n, phases) td.
        service: (n, phases) s̄, and ``prefill`` T.
        prompts: (n, 4) s̄ and T of a lone prompt that is not mixed, then what prompts on all other ranks add to both.
        filled: (n,) phases that ``decode`` holds.
    """

    live: IndexArray
    block_bytes: FloatArray
    stage_bytes: FloatArray
    buffers: FloatArray
    capacity: FloatArray
    block: FloatArray
    stage: FloatArray
    total: FloatArray
    decode: FloatArray
    service: FloatArray
    prefill: FloatArray
    prompts: FloatArray
    filled: IndexArray


@compiled
def allocate(program: Program, n: int) -> Sums:
    """Room for the sums of n strategies."""
    stages, phases = program.stage_count.max(), len(program.batches)
    return Sums(
        np.empty(n, np.uint32),
        np.empty((n, MEMORY)),
        np.empty((n * stages, MEMORY)),
        np.empty(n),
        np.empty(n),
        np.empty((n, LINE)),
        np.empty((n * stages, LINE)),
        np.empty((n, LINE)),
        np.empty((n, phases)),
        np.empty((n, phases)),
        np.empty((n, phases)),
        np.empty((n, 4)),
        np.empty(n, np.uint32),
    )


@compiled
def known_degrees(choice: Index, many: Index) -> Index:
    """The degrees of a vector; the first ones where there are none such."""
    return np.uint64(choice) if np.uint64(choice) < np.uint64(many) else np.uint64(0)


@compiled
def sort(program: Program, vectors: IntArray) -> Strategies:
    """The vectors in the order of the tables, so that those that read the same rows follow each other."""
    sizes, order = program.sizes, program.order
    n, columns, many = np.uint64(len(vectors)), np.uint64(len(sizes)), len(order)
    codes, vector = np.empty((len(vectors), len(sizes)), np.uint8), np.empty(len(vectors), np.uint32)
    degrees, inside = np.empty(len(vectors), np.uint32), np.empty(len(vectors), np.bool_)
    places = np.zeros(many + 1 if len(vectors) > 1 else 1, np.uint32)
    if len(vectors) > 1:
        for at in range(n):
            places[order[known_degrees(vectors[at, 0], many)] + np.uint64(1)] += np.uint32(1)
        for after in range(1, many):
            places[after] += places[after - 1]
    for at in range(n):
        mine = known_degrees(vectors[at, 0], many)
        rank = np.uint64(order[mine] if len(vectors) > 1 else 0)
        place, legal = np.uint64(places[rank]), np.uint64(vectors[at, 0]) < np.uint64(many)
        places[rank] += np.uint32(1)
        for column in range(np.uint64(1), columns):
            legal &= np.uint64(vectors[at, column]) < np.uint64(sizes[column])
        for column in range(columns):
            codes[place, column] = np.uint8(vectors[at, column]) if legal else np.uint8(0)
        vector[place], degrees[place], inside[place] = at, mine, legal
    return Strategies(codes, degrees, vector, inside)


@compiled
def leave_x(program: Program, given: Strategies, first: int, many: int) -> None:
    """Turn the choices of ``many`` strategies from ``first`` on into positions on a mesh of one axis."""
    codes, letters = given.codes, program.letters
    for at in range(np.uint64(first), np.uint64(first + many)):
        for column in range(np.uint64(1), np.uint64(codes.shape[1])):
            codes[at, column] = letters[column, codes[at, column]]


@compiled
def begin_stages(
    program: Program, lines: FloatArray, overhead: FloatArray, line: int, given: Strategies, first: int, many: int,
    sums: Sums,
) -> None:  # fmt: skip
    """Start the sums of stages with their host time, the total with the sends between stages."""
    table, base, codes, source = lines[line], program.sends.base, given.codes, program.sends.source[0]
    which = program.sends.which
    degrees, pp, count = given.degrees, program.pp, program.stage_count
    live, total, stage_sums = sums.live, sums.total, sums.stage
    stages = np.uint64(len(stage_sums) // len(total))
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        at = np.uint64(first) + n
        its = degrees[at]
        begin_line(total, n, 1.0, table, which[base[its, 0] + codes[at, source]], 0.0)
        add_line(total, n, pp[its], overhead, line)
        if pp[its] > 1:
            for row in range(n * stages, n * stages + np.uint64(count[its])):
                begin_line(stage_sums, row, 1.0, overhead, line, 0.0)


@compiled
def add_block(program: Program, block: int, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Count a block in the total and, of a pipeline, in every stage that holds it."""
    degrees, pp, begin, count, counts = (
        given.degrees, program.pp, program.stage_base, program.stage_count, program.stage_rows,
    )  # fmt: skip
    total_row, totals, live, own = program.total_row, program.totals, sums.live, sums.block
    total, stage_sums = sums.total, sums.stage
    stages = np.uint64(len(stage_sums) // len(total))
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        its = degrees[np.uint64(first) + n]
        add_line(total, n, totals[total_row[its], block], own, n)
        if pp[its] > 1:
            row = np.uint64(begin[its])
            for stage in range(np.uint64(count[its])):
                add_line(stage_sums, n * stages + stage, counts[row + stage, block], own, n)


@compiled
def end_line(program: Program, line: int, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Fill td = max(pp · heaviest stage, all stages) of a line, and the first line's prefills."""
    degrees, pps, live, prompts = given.degrees, program.pp, sums.live, sums.prompts
    total, stage, decode, filled = sums.total, sums.stage, sums.decode, sums.filled
    stages, begin = np.uint64(len(stage) // len(total)), np.uint64(line * LINE)
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        pp, row = pps[degrees[np.uint64(first) + n]], n * stages
        filled[n] = begin + np.uint64(LINE)
        lone, every = total[n, LONE_PREFILL], total[n, PREFILL]
        for phase in range(np.uint64(LINE)):
            decode[n, begin + phase] = total[n, phase]
        if pp > 1:
            for phase in range(np.uint64(LINE)):
                decode[n, begin + phase] = max(pp * stage[row, phase], total[n, phase])
            lone, every = stage[row, LONE_PREFILL], stage[row, PREFILL]
        if line == 0:
            prompts[n, 0], prompts[n, 1] = lone, total[n, LONE_PREFILL]
            prompts[n, 2], prompts[n, 3] = every - lone, total[n, PREFILL] - total[n, LONE_PREFILL]


@compiled
def fill_prompts(program: Program, line: int, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Fill s̄ and T of a line: what one rank's prompt costs, and a share of what all ranks' add.

    Of mixed steps it is what such a step takes beyond td/pp, of others the first line's prefill.
    """
    degrees, pps, live, prompts, shares = given.degrees, program.pp, sums.live, sums.prompts, program.shares
    decode, service, prefill, rows = sums.decode, sums.service, sums.prefill, program.wait_row
    lines, at, begin = np.uint64(len(program.lines)), np.uint64(line), np.uint64(line * LINE)
    mixed = len(program.mixed) > 0
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        its = degrees[np.uint64(first) + n]
        row, mine = np.uint64(rows[its]) * lines + at, n * lines + at
        if mixed:
            for phase in range(begin, begin + np.uint64(LINE)):
                slot = decode[n, phase] / pps[its]
                service[n, phase], prefill[n, phase] = max(service[n, phase] - slot, 0.0), prefill[n, phase] - slot
            add_line(service, mine, prompts[n, 2], shares, row)
            add_line(prefill, mine, prompts[n, 3], shares, row)
        else:
            begin_line(service, mine, prompts[n, 2], shares, row, prompts[n, 0])
            begin_line(prefill, mine, prompts[n, 3], shares, row, prompts[n, 1])


@compiled
def keep_heaviest(program: Program, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Turn the first stage of a pipeline into the heaviest one, phase by phase."""
    degrees, pps, count, live, stage = given.degrees, program.pp, program.stage_count, sums.live, sums.stage
    stages = np.uint64(len(stage) // len(sums.total))
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        its, row = degrees[np.uint64(first) + n], n * stages
        if pps[its] > 1:
            for other in range(row + np.uint64(1), row + np.uint64(count[its])):
                for phase in range(LINE):
                    stage[row, phase] = max(stage[row, phase], stage[other, phase])


@compiled
def sum_stages(
    program: Program, lines: FloatArray, overhead: FloatArray, prompts: FloatArray, line: int, given: Strategies,
    first: int, many: int, sums: Sums,
) -> None:  # fmt: skip
    """Sum one line of phases: the total, and the stages of pipelines; ``prompts`` are rows of what prefills alone."""
    table, live, own = lines[line], sums.live, sums.block
    begin_stages(program, lines, overhead, line, given, first, many, sums)
    for block in range(program.totals.shape[1]):
        add_rows(program.edges, block, table, program, given, first, live, many, own, True)
        if len(prompts) > 0:
            add_rows(program.prompts, block, prompts, program, given, first, live, many, own, False)
        add_block(program, block, given, first, many, sums)
    keep_heaviest(program, given, first, many, sums)


@compiled
def keep_mixed(line: int, program: Program, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Keep the heaviest stage of a line of mixed steps, and all stages."""
    degrees, pps, live, service, prefill = given.degrees, program.pp, sums.live, sums.service, sums.prefill
    total, stage = sums.total, sums.stage
    stages, begin = np.uint64(len(stage) // len(total)), np.uint64(line * LINE)
    for m in range(np.uint64(many)):
        n = np.uint64(live[m])
        pipelined = pps[degrees[np.uint64(first) + n]] > 1
        for phase in range(np.uint64(LINE)):
            service[n, begin + phase] = stage[n * stages, phase] if pipelined else total[n, phase]
            prefill[n, begin + phase] = total[n, phase]


@compiled
def sum_line(program: Program, line: int, given: Strategies, first: int, many: int, sums: Sums) -> None:
    """Fill one line of phases of the first ``many`` live strategies."""
    mixed = program.mixed
    if len(mixed) > 0:
        sum_stages(program, mixed, program.mixed_overhead, mixed[line], line, given, first, many, sums)
        keep_mixed(line, program, given, first, many, sums)
    prompts = program.prefill if line == 0 else program.prefill[:0]
    sum_stages(program, program.lines, program.overhead, prompts, line, given, first, many, sums)
    end_line(program, line, given, first, many, sums)
    fill_prompts(program, line, given, first, many, sums)
