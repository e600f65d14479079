"""Where a strategy's time goes: every operator and every collective of one layer, prefill and decode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.conversion import conversion_moves
from lts_bench.cost.edges import MeshPrices
from lts_bench.cost.graph import Block, Edge
from lts_bench.cost.layout import Move
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.cost.tables import Tables
from lts_bench.space.operators import Operator
from lts_bench.space.strategy import Strategy

AXES = ("x", "y")
Row = dict[str, Any]


def time_rows(tables: Tables, strategy: Strategy) -> tuple[list[Row], list[Row]]:
    """(operators, collectives) of tables of one degrees entry and one batch size; times of one layer in µs.

    ``count`` says how often a row occurs in the whole model.
    """
    operators: list[Row] = []
    collectives: list[Row] = []
    prices = next(tables.pricing.meshes())[0]
    for block, count in zip(tables.blocks, tables.stages.totals[0].tolist(), strict=True):
        for edge in block.edges:
            where = {"layer": block.name, "count": count}
            if edge.role != "plain":
                operators.append(where | _routed_row(tables, block, edge, strategy))
                continue
            operators += [where | row for row in _own_rows(prices, block, edge, tables, strategy)]
            collectives += [where | row for row in _moving_rows(prices, block, edge, tables, strategy)]
    return operators, collectives


def _ends(tables: Tables, block: Block, edge: Edge) -> tuple[Operator, Operator]:
    return tables.pricing.operator(block, edge.source), tables.pricing.operator(block, edge.target, target=True)


def _position(prices: MeshPrices, operator: Operator, strategy: Strategy) -> int:
    choice = strategy.sharding[operator.key]
    return prices.view(operator).choices.index(choice[-prices.mesh.axes :] if operator.axes == 2 else choice)


def _own_rows(prices: MeshPrices, block: Block, edge: Edge, tables: Tables, strategy: Strategy) -> Iterator[Row]:
    if edge.charged != "none":
        source, target = _ends(tables, block, edge)
        operator = source if edge.charged == "source" else target
        time, _ = prices.node(block, operator)
        yield _times(operator.key, strategy, time[0, _position(prices, operator, strategy)])


def _times(key: str, strategy: Strategy, time: NDArray[np.float64]) -> Row:
    split = ",".join(strategy.sharding[key])
    return {"operator": key, "split": split, "prefill_us": time[PREFILL] * 1e6, "decode_us": time[FIRST_RUNG] * 1e6}


def _routed_row(tables: Tables, block: Block, edge: Edge, strategy: Strategy) -> Row:
    """Exchange and products of routed experts, their collectives included; ``combine`` holds the residual's norm."""
    source, target = _ends(tables, block, edge)
    table = tables.edge_of(block, edge)
    prices = next(tables.pricing.meshes())[0]
    ends = [
        _position(prices, end, strategy) if end.axes == 2 else end.index(strategy.sharding[end.key])
        for end in (source, target)
    ]
    time = tables.seconds(table, table.base[0] + ends[0] * table.targets[prices.mesh.axes - 1] + ends[1])
    name = {"dispatch": "experts.dispatch", "experts": "experts", "combine": "experts.combine"}[edge.role]
    key = source.key if edge.role == "combine" else target.key
    return _times(key, strategy, time) | {"operator": f"{block.kind}.{name}"}


def _moving_rows(prices: MeshPrices, block: Block, edge: Edge, tables: Tables, strategy: Strategy) -> Iterator[Row]:
    source, target = _ends(tables, block, edge)
    ends = _position(prices, source, strategy), _position(prices, target, strategy)
    tensor = prices.activation(edge.features, sequences=edge.target == "head")
    rows: dict[tuple[str, str], Row] = {}
    for phase, column in ((PREFILL, "prefill_us"), (FIRST_RUNG, "decode_us")):
        if edge.when == ("decode" if phase == PREFILL else "prefill"):
            continue
        outputs, inputs = prices.states(edge, source, target, phase == PREFILL)
        for move, seconds in conversion_moves(prices.mesh, tensor, outputs[ends[0]], inputs[ends[1]], phase):
            if move.kind is not None:
                name = move.kind.label, _axes_label(prices, move)
                row = rows.setdefault(name, _collective(source, target, *name))
                row[column] += seconds * 1e6
    yield from rows.values()


def _axes_label(prices: MeshPrices, move: Move) -> str:
    names = AXES[-prices.mesh.axes :]
    return "·".join(names[axis] for axis in sorted(move.axes))


def _collective(source: Operator, target: Operator, kind: str, axes: str) -> Row:
    return {
        "from": source.key,
        "to": target.key,
        "collective": kind,
        "axes": axes,
        "prefill_us": 0.0,
        "decode_us": 0.0,
    }
