"""All that an evaluation reads, packed into arrays for the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.lockstep import wait_rows
from lts_bench.cost.nodes import ACTIVATION_BYTES, Setting
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.steady import Rules
from lts_bench.cost.tables import Tables
from lts_bench.space.operators import LOOKUP

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


HEAD = 24
"""Phases up to a batch size of 91, which a TPOT limit rarely lets a large model exceed: three cache lines."""


class EdgeRows(NamedTuple):
    """Rows of edges: ``base[degrees, edge] + i · targets[axes, edge] + j``.

    Attributes:
        block: (edges,) block that an edge belongs to; source, target: its decisions.
        base: (degrees, edges).
        targets: (2, edges) choices of the target on a mesh of one or two axes.
        phases: (edges,) phases in which the rows hold anything: all or the prefill alone.
        head: (rows, HEAD) seconds of the first phases, and tail: of the others; most strategies need the head alone.
    """

    block: IntArray
    source: IntArray
    target: IntArray
    base: IntArray
    targets: IntArray
    phases: IntArray
    head: FloatArray
    tail: FloatArray


class OperatorRows(NamedTuple):
    """Rows of operators: ``memory[base[degrees, operator] + i]``, bytes."""

    block: IntArray
    decision: IntArray
    base: IntArray
    memory: FloatArray


class Program(NamedTuple):
    """Arrays of the compiled evaluator.

    Attributes:
        sizes: (decisions,) choices of every decision.
        letters: (decisions, 2, most choices) choice → position on a mesh of one or two axes.
        two_axes: (degrees,) 1 where the mesh has two axes.
        send_base: (degrees,) first row of the time of all stage boundaries, by the choice of ``send_decision``.
        stage_rows: (rows, blocks) counts of the stages that may be the heaviest; ``stage_memory`` the same for memory
            where ``stored`` is equal for embedding and head.
        stored: (positions,) how a split of embedding or head stores its matrix.
        stage_base: (degrees,) first of the degrees' ``stage_count`` rows.
        totals: (rows, blocks) counts of all stages together; ``total_row`` (degrees,) picks the row.
        waits: (rows, rungs) prefills a rank waits for in a round, ``shares`` how full they are; ``wait_row`` (degrees,)
            picks the row.
        overhead: (phases,) host seconds of a stage's step.
        fixed_bytes: bytes on every device whatever the strategy.
        npus: devices that the score divides by.
    """

    sizes: IntArray
    letters: IntArray
    two_axes: IntArray
    edges: EdgeRows
    operators: OperatorRows
    send_decision: int
    send_base: IntArray
    stage_rows: FloatArray
    stage_memory: FloatArray
    stored: IntArray
    stage_base: IntArray
    stage_count: IntArray
    totals: FloatArray
    total_row: IntArray
    replicas: FloatArray
    pp: FloatArray
    dp: FloatArray
    wait_row: IntArray
    waits: FloatArray
    shares: FloatArray
    batches: FloatArray
    overhead: FloatArray
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
        ttft_limit=(slo.ttft_ms or 0.0) / 1e3,
        tpot_limit=(slo.tpot_ms or 0.0) / 1e3,
        quantile=quantile,
        queue_factor=float(-np.log1p(-quantile)),
        coordinated=setting.engine.coordinated_admission,
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
    """Position of a lookup's split → what a device holds of the matrix: split on tokens it is whole, as unsplit."""
    whole = [letter if letter != "M" else "R" for letter in LOOKUP]
    return _integers([len(LOOKUP) * whole.index(x) + whole.index(y) for x in whole for y in whole])


def build_program(tables: Tables) -> Program:
    """Pack tables for the compiled loop."""
    setting, degrees = tables.setting, tables.degrees
    wait_row, waits, shares = wait_rows(setting, degrees)
    return Program(
        sizes=_integers([len(degrees), *(len(each.choices) for each in tables.rules.operators)]),
        letters=tables.letters,
        two_axes=tables.pricing.two_axes,
        edges=_edge_rows(tables),
        operators=_operator_rows(tables),
        send_decision=tables.send_decision,
        send_base=tables.send_base,
        stage_rows=tables.stages.counts.astype(np.float64),
        stage_memory=_stage_memory(tables).astype(np.float64),
        stored=_stored(),
        stage_base=tables.stages.base,
        stage_count=tables.stages.many,
        totals=tables.stages.totals.astype(np.float64),
        total_row=tables.stages.total,
        replicas=np.array([float(d.replicas) for d in degrees]),
        pp=np.array([float(d.pp) for d in degrees]),
        dp=np.array([float(d.dp) for d in degrees]),
        wait_row=wait_row,
        waits=waits,
        shares=shares,
        batches=setting.phases.batches.astype(np.float64),
        overhead=overhead_seconds(setting),
        rules=serving_rules(setting),
        fixed_bytes=(setting.model.extra_parameters + setting.model.vectors) * ACTIVATION_BYTES,
        npus=float(setting.cluster.devices),
    )


def _integers(values: list[int]) -> IntArray:
    return np.array(values, dtype=np.int64)


def _edge_rows(tables: Tables) -> EdgeRows:
    edges = tables.edges
    return EdgeRows(
        block=_integers([edge.block for edge in edges]),
        source=_integers([edge.source for edge in edges]),
        target=_integers([edge.target for edge in edges]),
        base=np.ascontiguousarray(np.array([edge.base for edge in edges]).T),
        targets=np.array([[edge.targets[axes] for edge in edges] for axes in (0, 1)], dtype=np.int64),
        phases=_integers([tables.times.shape[1] if edge.decodes else FIRST_RUNG for edge in edges]),
        head=_line_aligned(tables.times[:, :HEAD]),
        tail=np.ascontiguousarray(tables.times[:, HEAD:]),
    )


def _line_aligned(rows: FloatArray) -> FloatArray:
    """A copy whose first element begins a cache line of 64 bytes."""
    buffer = np.empty(rows.size + 7)
    first = -buffer.ctypes.data % 64 // 8
    aligned = buffer[first : first + rows.size].reshape(rows.shape)
    aligned[:] = rows
    return aligned


def _operator_rows(tables: Tables) -> OperatorRows:
    operators = tables.operators
    return OperatorRows(
        block=_integers([each.block for each in operators]),
        decision=_integers([each.decision for each in operators]),
        base=np.ascontiguousarray(np.array([each.base for each in operators]).T),
        memory=np.ascontiguousarray(tables.memory),
    )
