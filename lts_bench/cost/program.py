"""All that an evaluation reads, packed into arrays for the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.lockstep import wait_rows
from lts_bench.cost.nodes import ACTIVATION_BYTES, Setting
from lts_bench.cost.steady import Rules
from lts_bench.cost.tables import Tables

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Program(NamedTuple):
    """Arrays of the compiled evaluator; see ``Tables`` for their meaning.

    Attributes:
        sizes: (decisions,) choices of every decision.
        edge_base: (degrees, edges); edge_targets alike.
        stage_rows: (rows, 1 + blocks) multiplicity and counts for time; ``stage_memory`` the same for memory.
        waits: (rows, rungs) prompts a rank waits for in a round; ``wait_row`` (degrees,) picks the row.
        overhead: (phases,) host seconds of a stage's step.
    """

    sizes: IntArray
    times: FloatArray
    memory: FloatArray
    letters: IntArray
    two_axes: IntArray
    edge_block: IntArray
    edge_source: IntArray
    edge_target: IntArray
    edge_base: IntArray
    edge_targets: IntArray
    operator_block: IntArray
    operator_decision: IntArray
    operator_base: IntArray
    send_decision: int
    send_base: IntArray
    stage_rows: FloatArray
    stage_memory: FloatArray
    stage_base: IntArray
    stage_count: IntArray
    replicas: FloatArray
    pp: FloatArray
    dp: FloatArray
    wait_row: IntArray
    waits: FloatArray
    batches: FloatArray
    overhead: FloatArray
    rules: Rules
    fixed_bytes: float
    npus: float


def memory_limit_bytes(setting: Setting) -> float:
    """Bytes a device may hold: memory_fraction · usable HBM."""
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
    counts = tables.stage_rows.copy()
    names = [block.name for block in tables.blocks]
    embed, head = 1 + names.index("embed"), 1 + names.index("head")
    if tables.setting.model.tied:
        counts[(counts[:, embed] > 0) & (counts[:, head] > 0), embed] = 0
    return counts


def build_program(tables: Tables) -> Program:
    """Pack tables for the compiled loop."""
    setting, edges, operators = tables.setting, tables.edges, tables.operators
    model = setting.model
    wait_row, waits = wait_rows(setting, tables.degrees)
    return Program(
        sizes=np.array([len(tables.degrees), *(len(each.choices) for each in tables.rules.operators)], dtype=np.int64),
        times=np.ascontiguousarray(tables.times),
        memory=np.ascontiguousarray(tables.memory),
        letters=tables.letters,
        two_axes=tables.two_axes,
        edge_block=np.array([edge.block for edge in edges], dtype=np.int64),
        edge_source=np.array([edge.source for edge in edges], dtype=np.int64),
        edge_target=np.array([edge.target for edge in edges], dtype=np.int64),
        edge_base=np.ascontiguousarray(np.array([edge.base for edge in edges]).T),
        edge_targets=np.ascontiguousarray(np.array([edge.targets for edge in edges]).T),
        operator_block=np.array([each.block for each in operators], dtype=np.int64),
        operator_decision=np.array([each.decision for each in operators], dtype=np.int64),
        operator_base=np.ascontiguousarray(np.array([each.base for each in operators]).T),
        send_decision=tables.send_decision,
        send_base=tables.send_base,
        stage_rows=tables.stage_rows.astype(np.float64),
        stage_memory=_stage_memory(tables).astype(np.float64),
        stage_base=tables.stage_base,
        stage_count=tables.stage_count,
        replicas=np.array([float(d.replicas) for d in tables.degrees]),
        pp=np.array([float(d.pp) for d in tables.degrees]),
        dp=np.array([float(d.dp) for d in tables.degrees]),
        wait_row=wait_row,
        waits=waits,
        batches=setting.phases.batches.astype(np.float64),
        overhead=overhead_seconds(setting),
        rules=serving_rules(setting),
        fixed_bytes=(model.extra_parameters + model.vectors) * ACTIVATION_BYTES,
        npus=float(setting.cluster.devices),
    )
