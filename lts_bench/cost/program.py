"""All that an evaluation reads, packed into arrays for the compiled loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.lockstep import wait_rows
from lts_bench.cost.nodes import ACTIVATION_BYTES, Setting
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.rows import LINE, Place, in_strips
from lts_bench.cost.steady import NO_LIMIT, Rules
from lts_bench.cost.tables import Tables
from lts_bench.space.operators import LOOKUP

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
IndexArray = NDArray[np.unsignedinteger]
Index: TypeAlias = Any
"""An integer; an unsigned one where it selects from an array in a compiled loop, as others are tested for being < 0."""


class Rows(NamedTuple):
    """Where rows stand: ``base[degrees, k] + sources[axes, k, i] + targets[axes, k, j]``, i and j being choices.

    Attributes:
        first: (blocks + 1,) first k of every block.
        source: (k,) decision behind i; target: behind j.
        sources: (2, k, choices) on a mesh of one and of two axes.
        targets: (2, k, choices).
        base: (degrees, k).
        which: (rows,) the row of the table that a row is.
    """

    first: IntArray
    source: IndexArray
    target: IndexArray
    strides: IndexArray
    base: IndexArray
    which: IndexArray


class Program(NamedTuple):
    """Arrays of the evaluation. Phases are padded to whole lines, of rungs that no memory holds.

    Attributes:
        sizes: (decisions,) choices of every decision.
        order: (degrees,) rank of degrees among those that read neighbouring rows.
        two_axes: (degrees,) 1 where the mesh has two axes.
        edges: rows of ``lines`` (lines, rows, LINE), seconds.
        prompts: rows of ``prefill`` (rows,), seconds: edges that exist in the prefill alone.
        operators: rows of ``memory`` (rows, 4), bytes; the source decides alone.
        sends: rows of ``lines``: the time of all stage boundaries; the source decides alone.
        stage_rows: (rows, blocks) counts of the stages that may be the heaviest; ``stage_memory`` the same for memory
            where ``stored`` is equal for embedding and head.
        stored: (choices,) how a split of embedding or head stores its matrix, by number of axes.
        stage_base: (degrees,) first of the degrees' ``stage_count`` rows.
        totals: (rows, blocks) counts of all stages together; ``total_row`` (degrees,) picks the row.
        ladder: (rungs,) batch sizes, ``batches`` (phases,) in their phases.
        waits: (rows, phases) prefills a rank waits for in a round, ``shares`` how full they are; ``wait_row``
            (degrees,) picks the row.
        overhead: (lines, LINE) host seconds of a stage's step.
        mixed: (lines, rows, LINE) like ``lines``, of steps that hold a prompt beside the rung, and ``mixed_overhead``;
            none where the engine does not mix.
        fixed_bytes: bytes on every device whatever the strategy.
        npus: devices that the score divides by.
    """

    sizes: IntArray
    order: IndexArray
    two_axes: IndexArray
    letters: IndexArray
    edges: Rows
    lines: FloatArray
    prompts: Rows
    prefill: FloatArray
    operators: Rows
    memory: FloatArray
    sends: Rows
    stage_rows: FloatArray
    stage_memory: FloatArray
    stored: IntArray
    stage_base: IndexArray
    stage_count: IndexArray
    totals: FloatArray
    total_row: IndexArray
    replicas: FloatArray
    pp: FloatArray
    dp: FloatArray
    ladder: FloatArray
    batches: FloatArray
    wait_row: IndexArray
    waits: FloatArray
    shares: FloatArray
    overhead: FloatArray
    mixed: FloatArray
    mixed_overhead: FloatArray
    rules: Rules
    fixed_bytes: float
    npus: float


def memory_limit_bytes(setting: Setting) -> float:
    """Bytes a device may hold: memory_fraction · usable HBM, or all where the KV cache takes a share of the rest."""
    if setting.phases.workload.free_memory_fraction is not None:
        return setting.cluster.chip.hbm_bytes_usable
    fraction = setting.phases.workload.memory_fraction or setting.engine.memory_fraction
    return fraction * setting.cluster.chip.hbm_bytes_usable


def serving_rules(setting: Setting) -> Rules:
    """Limits and admission of a workload under an engine."""
    slo = setting.phases.workload.slo
    quantile = slo.percentile / 100
    return Rules(
        memory_limit=memory_limit_bytes(setting),
        ttft_limit=slo.ttft_ms / 1e3 if slo.ttft_ms else NO_LIMIT,
        tpot_limit=slo.tpot_ms / 1e3 if slo.tpot_ms else NO_LIMIT,
        quantile=quantile,
        queue_factor=float(-np.log1p(-quantile)),
        coordinated=setting.engine.coordinated_admission,
        mixed=setting.engine.mixed_prefill,
    )


def overhead_seconds(setting: Setting) -> FloatArray:
    """(phases,) host time of one stage's step."""
    engine = setting.engine
    return (engine.step_overhead_us + engine.sequence_overhead_us * setting.phases.sequences) * 1e-6


def _stage_memory(tables: Tables) -> IntArray:
    """Stage counts for memory: tied embedding and head are one matrix where one stage holds both."""
    counts = tables.stages.counts.copy()
    names = [block.name for block in tables.blocks]
    embed, head = names.index("embed"), names.index("head")
    if tables.setting.model.tied:
        counts[(counts[:, embed] > 0) & (counts[:, head] > 0), embed] = 0
    return counts


def _stored() -> IntArray:
    """(2, choices) what a device holds of a lookup's matrix: split on tokens it is whole, as unsplit."""
    whole = [letter if letter != "M" else "R" for letter in LOOKUP]
    pairs = [len(LOOKUP) * whole.index(x) + whole.index(y) for x in whole for y in whole]
    return np.array(pairs)


def build_program(tables: Tables) -> Program:
    """Pack tables for the evaluation."""
    setting, degrees, columns = tables.setting, tables.degrees, tables.pricing.columns
    wait_row, waits, shares = wait_rows(setting, degrees)
    edges = [edge for edge in tables.edges if edge.decodes]
    prompts = [edge for edge in tables.edges if not edge.decodes]
    packed, overhead = _rows(tables, edges, tables.which), overhead_seconds(setting)
    lines = -(-(FIRST_RUNG + len(setting.phases.batches)) // LINE)
    return Program(
        sizes=np.array([len(degrees), *(len(each.choices) for each in tables.rules.operators)]),
        order=_rank(tables.pricing.two_axes, packed.base),
        two_axes=tables.pricing.two_axes.astype(np.uint8),
        letters=tables.letters[:, 0].astype(np.uint8),
        edges=packed,
        lines=tables.lines[:lines],
        prompts=_rows(tables, prompts, tables.which_prompt),
        prefill=tables.prompts[0],
        operators=_rows(tables, tables.operators, np.arange(len(tables.memory), dtype=np.uint32)),
        memory=tables.memory,
        sends=_rows(tables, [tables.sends], tables.which),
        stage_rows=tables.stages.counts.astype(np.float64),
        stage_memory=_stage_memory(tables).astype(np.float64),
        stored=_stored(),
        stage_base=tables.stages.base.astype(np.uint32),
        stage_count=tables.stages.many.astype(np.uint32),
        totals=tables.stages.totals.astype(np.float64),
        total_row=tables.stages.total.astype(np.uint32),
        replicas=columns["replicas"].astype(np.float64),
        pp=columns["pp"].astype(np.float64),
        dp=columns["dp"].astype(np.float64),
        ladder=setting.phases.batches.astype(np.float64),
        batches=_phases(setting.phases.batches[None].astype(np.float64), np.inf)[0],
        wait_row=wait_row.astype(np.uint32),
        waits=_phases(waits, 1.0),
        shares=_phases(shares, 0.0),
        overhead=np.pad(overhead, (0, -len(overhead) % LINE)).reshape(-1, LINE)[:lines],
        mixed=_mixed_lines(tables.distinct_times, setting) if setting.phases.mixed else tables.lines[:0],
        mixed_overhead=_mixed_lines(overhead[None], setting)[:, 0] if setting.phases.mixed else np.zeros((0, LINE)),
        rules=serving_rules(setting),
        fixed_bytes=(setting.model.extra_parameters + setting.model.vectors) * ACTIVATION_BYTES,
        npus=float(setting.cluster.devices),
    )


def _rank(axes: IntArray, base: IndexArray) -> IndexArray:
    """Rank of every degrees in the order of their rows."""
    rank = np.empty(len(base), dtype=np.uint32)
    rank[np.lexsort((base[:, -1], base[:, 0], axes))] = np.arange(len(base), dtype=np.uint32)
    return rank


def _phases(rungs: FloatArray, fill: float) -> FloatArray:
    """(rows, rungs) as (rows, phases in whole lines)."""
    phases = FIRST_RUNG + rungs.shape[1]
    return np.pad(rungs, ((0, 0), (FIRST_RUNG, -phases % LINE)), constant_values=fill)


def _mixed_lines(times: FloatArray, setting: Setting) -> FloatArray:
    """(rows, phases) of the mixed steps as (lines, rows, LINE), their rungs where those of the decode steps stand."""
    padded = np.pad(times[:, setting.phases.decode.stop :], ((0, 0), (FIRST_RUNG, 0)))
    return in_strips([padded], len(padded), padded.shape[1], LINE)


def _rows(tables: Tables, places: Sequence[Place], which: IndexArray) -> Rows:
    """Rows of the blocks' edges or operators, which come block by block."""
    owners = np.array([each.block for each in places], dtype=np.int64)
    return Rows(
        first=np.searchsorted(owners, np.arange(len(tables.blocks) + 1)),
        source=np.array([each.source for each in places], dtype=np.uint8),
        target=np.array([each.target for each in places], dtype=np.uint8),
        strides=np.array([[each.targets[axes] for each in places] for axes in (0, 1)], dtype=np.uint32),
        base=np.array([each.base for each in places], dtype=np.uint32)
        .reshape(len(places), len(tables.degrees))
        .T.copy(),
        which=which,
    )
