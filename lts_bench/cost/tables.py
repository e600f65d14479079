"""Everything an evaluation gathers, tabulated: edges by choice pairs and phases, memory by choices, stages by pp.

A strategy's time is a sum of table rows, one for each edge of the graph; a row holds all phases. Rows depend on the
degrees only through what their cost depends on: the tensor-parallel mesh, and for routed experts the expert ranks.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.edges import MeshPrices, overlapped
from lts_bench.cost.expert_tables import ExpertTables
from lts_bench.cost.graph import Block, Edge, block_counts, joined, model_blocks
from lts_bench.cost.nodes import KV_FULL, KV_MEAN, Setting
from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.cost.pricing import Pricing
from lts_bench.cost.rows import LINE, DistinctRows, IntArray, Place, RowStore, StageRows, distinct_rows, positions
from lts_bench.cost.stages import crossings, heaviest_stages, send_seconds
from lts_bench.space.operators import Operator
from lts_bench.space.strategy import Degrees, even_stages
from lts_bench.specs.layers import MoeFfn

FloatArray = NDArray[np.float64]


class Tables:
    """The tables of a model on a cluster for a list of degrees.

    Attributes:
        blocks: what is counted per stage.
        lines: (lines, distinct rows, LINE) seconds of edges, the phases in whole lines, and ``which`` (rows,) of them
            a row is; ``prompts`` and ``which_prompt`` are those of edges that exist in the prefill alone.
        memory: (rows, 4) bytes of operators; KV counts the room that must stay free beside it.
        letters: (decisions, 2, most choices) choice → position on a mesh of one or two axes.
    """

    def __init__(self, setting: Setting, degrees: Sequence[Degrees], stages: tuple[int, ...] | None = None) -> None:
        self.pricing = Pricing(setting, degrees)
        self.setting, self.degrees, self.rules = setting, self.pricing.degrees, self.pricing.rules
        self.blocks = model_blocks(setting.model)
        self._times, self._prompts, self._memory = DistinctRows(), DistinctRows(), RowStore()
        self.edges: list[Place] = []
        self._edge_tables: dict[tuple[Block, Edge], Place] = {}
        self.operators: list[Place] = []
        self._known: dict[Hashable, IntArray] = {}
        self._known_memory: dict[Hashable, IntArray] = {}
        for index, block in enumerate(self.blocks):
            self._add_block(index, block)
        self.sends = self._add_sends()
        self.lines, self.which = self._times.strips(LINE)
        self.prompts, self.which_prompt = self._prompts.strips(LINE)
        self.memory = self._memory.join()
        self.memory[:, [KV_MEAN, KV_FULL]] /= setting.phases.workload.free_memory_fraction or 1.0
        self.letters = self._letter_maps()
        self.stages = self._stages(stages)

    def seconds(self, edges: Place, row: int) -> FloatArray:
        """(phases,) one row of joined edges."""
        lines, which = (self.lines, self.which) if edges.decodes else (self.prompts, self.which_prompt)
        held = lines[:, which[row]].ravel()
        phases = len(self.setting.phases)
        return held[:phases] if edges.decodes else np.pad(held[:FIRST_RUNG], (0, phases - FIRST_RUNG))

    @property
    def distinct_times(self) -> FloatArray:
        """(distinct rows, phases) ``lines`` row by row."""
        return np.moveaxis(self.lines, 0, 1).reshape(self.lines.shape[1], -1)[:, : len(self.setting.phases)]

    def edge_of(self, block: Block, edge: Edge) -> Place:
        """The table of a block's edge."""
        return self._edge_tables[block, edge]

    def _add_block(self, index: int, block: Block) -> None:
        costs = ExpertTables(self.pricing, self._times, self._memory, block) if _is_moe(block) else None
        mixes = bool(self.setting.phases.prefilled[FIRST_RUNG:].any())
        for edges in joined(block.edges):
            source, target = self._ends(block, edges[0])
            signature = (edges, source.choices, target.choices, *(self._priced_by(block, edge) for edge in edges))
            decodes = mixes or any(e.when != "prefill" or e.charged != "none" for e in edges)
            if signature not in self._known:
                self._known[signature] = self._edge_rows(block, edges, costs, decodes)
            columns = self.pricing.decisions[source.key], self.pricing.decisions[target.key]
            self.edges.append(Place(index, columns[0], self._known[signature], columns[1], positions(target), decodes))
            for edge in edges:
                self._edge_tables[block, edge] = self.edges[-1]
                self._add_memory(index, block, edge, costs)

    def _ends(self, block: Block, edge: Edge) -> tuple[Operator, Operator]:
        return self.pricing.operator(block, edge.source), self.pricing.operator(block, edge.target, target=True)

    def _priced_by(self, block: Block, edge: Edge) -> Hashable:
        """What, beside the edge itself, its price depends on: shapes, and the legality of the operator it charges."""
        limits = [self.rules.limits(self.pricing.operator(block, name)) for name in _charged_operators(edge)]
        return (_shapes(block, edge), *limits)

    def _edge_rows(self, block: Block, edges: tuple[Edge, ...], costs: ExpertTables | None, decodes: bool) -> IntArray:
        """First row of joined edges for all degrees."""
        if edges[0].role != "plain":
            assert costs is not None
            return costs.edge_rows(edges[0])
        base = np.zeros(len(self.degrees), dtype=np.int64)
        for prices, place in self.pricing.meshes():
            rows = self.plain_seconds(prices, block, edges)
            mine = place >= 0
            first = self._times.add(rows) if decodes else self._prompts.add(rows[..., :FIRST_RUNG])
            base[mine] = first + place[mine] * rows.shape[1] * rows.shape[2]
        return base

    def plain_seconds(self, prices: MeshPrices, block: Block, edges: tuple[Edge, ...]) -> FloatArray:
        """(keys, source choices, target choices, phases) price of joined edges within the mesh."""
        time = self._edge_seconds(prices, block, edges[0])
        for edge in edges[1:]:
            more = self._edge_seconds(prices, block, edge)
            time += more if edge.source == edges[0].source else more.swapaxes(1, 2)
        return time

    def _edge_seconds(self, prices: MeshPrices, block: Block, edge: Edge) -> FloatArray:
        source, target = self._ends(block, edge)
        moving = prices.conversion(edge, source, target)
        if edge.charged == "none":
            return moving
        working, _ = prices.node(block, source if edge.charged == "source" else target)
        working = working[:, :, None] if edge.charged == "source" else working[:, None]
        return overlapped(moving, working, self.setting.engine.overlap)

    def _add_memory(self, index: int, block: Block, edge: Edge, costs: ExpertTables | None) -> None:
        for name in _charged_operators(edge):
            operator = self.pricing.operator(block, name)
            signature = (operator.name, operator.choices, _shapes(block, edge), name)
            if signature not in self._known_memory:
                expert = costs is not None and name.startswith("experts.")
                self._known_memory[signature] = (
                    costs.memory_rows(name) if expert and costs else self._mesh_memory(block, operator)
                )
            self.operators.append(Place(index, self.pricing.decisions[operator.key], self._known_memory[signature]))

    def _mesh_memory(self, block: Block, operator: Operator) -> IntArray:
        base = np.zeros(len(self.degrees), dtype=np.int64)
        for prices, place in self.pricing.meshes():
            _, rows = prices.node(block, operator)
            mine = place >= 0
            base[mine] = self._memory.add(rows) + place[mine] * rows.shape[1]
        return base

    def _add_sends(self) -> Place:
        """Rows of the time of all stage boundaries by residual layout.

        Between stages the residual has the layout of the kind with the most layers.
        """
        kinds = self.setting.model.kinds
        decision = self.pricing.decisions[f"{max(kinds, key=lambda kind: kinds[kind])}.stream"]
        stream = self.rules.operators[decision - 1]
        base = np.zeros(len(self.degrees), dtype=np.int64)
        for prices, place in self.pricing.meshes():
            mine = np.flatnonzero(place >= 0)
            boundaries, of_degrees = self.pricing.distinct_keys(
                mine, ("stage", "pp", "replicas"), lambda d: crossings(self.setting.cluster, d)
            )
            first, rows = distinct_rows(np.stack((place[mine], of_degrees), axis=1))
            crossed = [boundaries[at] for at in of_degrees[first].tolist()]
            time = send_seconds(prices, stream, list(zip(place[mine][first].tolist(), crossed, strict=True)))
            base[mine] = self._times.add(time) + rows * time.shape[1]
        return Place(0, decision, base)

    def _letter_maps(self) -> IntArray:
        widest = max(len(operator.choices) for operator in self.rules.operators)
        maps = np.zeros((1 + len(self.rules.operators), 2, widest), dtype=np.int64)
        for column, operator in enumerate(self.rules.operators, start=1):
            choices = np.arange(len(operator.choices))
            maps[column, :, : len(choices)] = choices % np.array(positions(operator))[:, None]
        return maps

    def _stages(self, stages: tuple[int, ...] | None) -> StageRows:
        model = self.setting.model
        rows: list[tuple[int, ...]] = []
        totals: list[IntArray] = []
        places: list[tuple[int, int, int]] = []
        pps, row = np.unique(self.pricing.columns["pp"], return_inverse=True)
        for pp in pps.tolist():
            counts = block_counts(model, self.blocks, stages or even_stages(len(model.layers), pp))
            heaviest = heaviest_stages(counts)
            places.append((len(rows), len(heaviest), len(totals)))
            rows += heaviest
            totals.append(np.sum(counts, axis=0))
        first, many, total = np.array(places, dtype=np.int64)[row].T.copy()
        return StageRows(np.array(rows, dtype=np.int64), first, many, np.array(totals, dtype=np.int64), total)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return int(self.lines.nbytes + self.prompts.nbytes + self.which.nbytes + self.memory.nbytes)


def _is_moe(block: Block) -> bool:
    return block.layer is not None and isinstance(block.layer.ffn, MoeFfn)


def _charged_operators(edge: Edge) -> tuple[str, ...]:
    if edge.role in ("dispatch", "experts"):
        return (edge.target,)
    names = {"target": (edge.target,), "source": (edge.source,), "none": ()}
    return names[edge.charged]


def _shapes(block: Block, edge: Edge) -> Hashable:
    """What, beside the edge itself, the price of its operators depends on."""
    layer = block.layer
    if layer is None or edge.charged == "none":
        return None
    if edge.target == "stream" or edge.role != "plain":
        return (layer, block.edges)
    return layer.mixer if edge.target.startswith("attention.") else layer.ffn
