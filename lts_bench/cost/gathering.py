"""The compiled gathering: one strategy finds its rows and sums them, line of phases after line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lts_bench.cost.compiled import compiled, inlined
from lts_bench.cost.phases import LONE_PREFILL, PREFILL
from lts_bench.cost.program import FloatArray, Index, IndexArray, Program, Rows
from lts_bench.cost.rows import LINE, MEMORY
from lts_bench.cost.sorting import Strategies
from lts_bench.cost.steady import Number, larger
from lts_bench.cost.vectors import lane, line_at, line_of, put_line


class Sums(NamedTuple):
    """Room for the sums of one strategy.

    Attributes:
        edges: (k,) rows of the edges, ``prompts`` of those that exist in the prefill alone.
        block: (blocks, LINE) seconds of every block in one line of phases, ``block_bytes`` (blocks, MEMORY).
        stage_bytes: (stages, MEMORY) of every stage that may be the heaviest.
        decode: (phases,) td.
        service: (phases,) s̄, and ``prefill`` T.
    """

    edges: IndexArray
    prompts: IndexArray
    block: FloatArray
    block_bytes: FloatArray
    stage_bytes: FloatArray
    decode: FloatArray
    service: FloatArray
    prefill: FloatArray


class Prompt(NamedTuple):
    """Seconds of a prompt that is not mixed into a decode step.

    Attributes:
        lone: s̄ where no other rank prefills, ``latency`` T.
        more: what prompts on all other ranks add to s̄, ``more_latency`` to T.
    """

    lone: float
    latency: float
    more: float
    more_latency: float


@compiled
def allocate(program: Program) -> Sums:
    """Room for the sums of a strategy."""
    stages, phases, blocks = program.stage_count.max(), len(program.batches), program.totals.shape[1]
    return Sums(
        np.empty(len(program.edges.source), np.uint32),
        np.empty(len(program.prompts.source), np.uint32),
        np.empty((blocks, LINE)),
        np.empty((blocks, MEMORY)),
        np.empty((stages, MEMORY)),
        np.empty(phases),
        np.empty(phases),
        np.empty(phases),
    )


@inlined
def find(rows: Rows, axes: Index, its: Index, given: Strategies, n: Index, found: IndexArray) -> None:
    """Find the rows of a strategy of degrees ``its`` on meshes of so many axes."""
    codes = given.codes
    for k in range(np.uint64(len(found))):
        row = rows.base[its, k] + codes[n, rows.source[k]] * rows.strides[axes, k] + codes[n, rows.target[k]]
        found[k] = rows.which[row]


@inlined
def find_rows(program: Program, its: Index, given: Strategies, n: Index, sums: Sums) -> None:
    """Find all rows of a strategy that hold seconds."""
    axes = np.uint64(program.two_axes[its])
    find(program.edges, axes, its, given, n, sums.edges)
    find(program.prompts, axes, its, given, n, sums.prompts)


@inlined
def sum_block(
    program: Program, block: Index, table: FloatArray, prompts: FloatArray, prompting: bool, sums: Sums
) -> Number:
    """Seconds of a block in a line of phases."""
    rows, first, begin = sums.edges, program.edges.first, program.prompts.first
    start, one = np.uint64(first[block]), np.uint64(1)
    own = line_at(table, np.uint64(rows[start]))
    for k in range(start + one, np.uint64(first[block + one])):
        own = own + line_at(table, np.uint64(rows[k]))
    if prompting:
        for k in range(np.uint64(begin[block]), np.uint64(begin[block + one])):
            own = own + line_at(prompts, np.uint64(sums.prompts[k]))
    return own


@inlined
def sum_stages(
    program: Program, table: FloatArray, prompts: FloatArray, prompting: bool, overhead: Number, its: Index,
    given: Strategies, n: Index, sums: Sums,
) -> tuple[Number, Number]:  # fmt: skip
    """Seconds of the heaviest stage and of all stages in a line of phases, phase by phase.

    Args:
        program: where the rows stand.
        table: of the line, rows of seconds.
        prompts: rows of what exists in the prefill alone.
        prompting: whether the line holds prefills.
        overhead: host seconds of a stage's step.
        its: the degrees.
        given: strategies.
        n: which of them.
        sums: its rows, found.
    """
    sends, pp, blocks = program.sends, program.pp[its], np.uint64(program.totals.shape[1])
    send = sends.which[sends.base[its, 0] + given.codes[n, sends.source[0]]]
    total = line_at(table, np.uint64(send)) + overhead * pp
    row = np.uint64(program.total_row[its])
    for block in range(blocks):
        own = sum_block(program, block, table, prompts, prompting, sums)
        put_line(sums.block, block, own)
        total = total + own * program.totals[row, block]
    heaviest = total
    if pp > 1:
        begin = np.uint64(program.stage_base[its])
        for stage in range(np.uint64(program.stage_count[its])):
            held = overhead
            for block in range(blocks):
                held = held + line_at(sums.block, block) * program.stage_rows[begin + stage, block]
            heaviest = larger(heaviest, held) if stage > 0 else held
    return heaviest, total


@inlined
def sum_line(
    program: Program, line: Index, its: Index, given: Strategies, n: Index, sums: Sums, before: Prompt
) -> Prompt:
    """Fill td = max(pp · heaviest stage, all stages), s̄ and T of a line of phases; the prompt, which the first tells.

    s̄ and T are what one rank's prompt costs, and a share of what all ranks' add; where prompts are prefilled in decode
    steps, what such a step takes beyond td/pp.
    """
    pp, prompt, host = program.pp[its], before, line_at(program.overhead, line)
    heaviest, total = sum_stages(program, program.lines[line], program.prefill, line == 0, host, its, given, n, sums)
    td = larger(heaviest * pp, total) if pp > 1 else total
    put_line(sums.decode, line, td)
    if line == 0:
        lone, latency = lane(heaviest, np.uint64(LONE_PREFILL)), lane(total, np.uint64(LONE_PREFILL))
        every, every_latency = lane(heaviest, np.uint64(PREFILL)), lane(total, np.uint64(PREFILL))
        prompt = Prompt(lone, latency, every - lone, every_latency - latency)
    service, prefill = line_of(prompt.lone), line_of(prompt.latency)
    if len(program.mixed) > 0:
        table, host = program.mixed[line], line_at(program.mixed_overhead, line)
        heaviest, total = sum_stages(program, table, table, True, host, its, given, n, sums)
        service, prefill = larger(heaviest - td / pp, 0.0), total - td / pp
    share = line_at(program.shares, np.uint64(program.wait_row[its]) * np.uint64(len(program.lines)) + line)
    put_line(sums.service, line, service + share * prompt.more)
    put_line(sums.prefill, line, prefill + share * prompt.more_latency)
    return prompt
