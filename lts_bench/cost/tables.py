"""Everything an evaluation gathers, tabulated: edges by choice pairs and phases, memory by choices, stages by pp.

A strategy's time is a sum of table rows, one for each edge of the graph; a row holds all phases. Rows depend on the
degrees only through what their cost depends on: the tensor-parallel mesh, and for routed experts the expert ranks.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.edges import MeshPrices, combine_seconds, dispatch_seconds, overlapped
from lts_bench.cost.experts import LETTERS, ExpertCosts, ExpertKey, expert_key
from lts_bench.cost.graph import Block, Edge, block_counts, joined, model_blocks
from lts_bench.cost.mesh import Mesh, MeshKey, mesh_key
from lts_bench.cost.nodes import Setting
from lts_bench.cost.stages import crossings, heaviest_stages, send_seconds
from lts_bench.space.operators import Operator
from lts_bench.space.rules import OperatorRules
from lts_bench.space.strategy import Degrees, even_stages
from lts_bench.specs.model import MoeFfn

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ILLEGAL_SECONDS = 1e15
"""Stands for infinity, so that sums stay finite."""


def distinct(keys: Iterable[Hashable]) -> tuple[list[Hashable], IntArray]:
    """Distinct keys in order of appearance, and the position of every key among them."""
    positions: dict[Hashable, int] = {}
    rows = [positions.setdefault(key, len(positions)) for key in keys]
    return list(positions), np.array(rows, dtype=np.int64)


def positions(operator: Operator) -> tuple[int, int]:
    """Distinct choices of an operator on a mesh of one and of two axes; x is idle on one."""
    return len(operator.letters), len(operator.choices)


@dataclass(frozen=True)
class EdgeTable:
    """Where the rows of joined edges stand: ``base[degrees] + i · targets[axes] + j``.

    Attributes:
        block: index of the edges' block.
        source: decision of the producer, i is its choice (mapped by ``letters``).
        target: decision of the consumer.
        targets: positions of the consumer on a mesh of one and of two axes.
        decodes: whether the rows hold anything beside the prefill.
    """

    block: int
    source: int
    target: int
    base: IntArray
    targets: tuple[int, int]
    decodes: bool


@dataclass(frozen=True)
class MemoryTable:
    """Where the memory rows of one operator stand: ``base[degrees] + i``."""

    block: int
    decision: int
    base: IntArray


@dataclass(frozen=True)
class StageRows:
    """Blocks of pipeline stages, by pp.

    Attributes:
        counts: (rows, blocks) blocks of the stages that may be the heaviest.
        base: (degrees,) first of the degrees' ``many`` rows.
        totals: (distinct pp, blocks) blocks of all stages together; ``total`` (degrees,) picks the row.
    """

    counts: IntArray
    base: IntArray
    many: IntArray
    totals: IntArray
    total: IntArray


class Tables:
    """The tables of a model on a cluster for a list of degrees.

    Attributes:
        blocks: what is counted per stage.
        times: (rows, phases) seconds of edges.
        memory: (rows, 4) bytes of operators.
        letters: (decisions, 2, most choices) choice → position on a mesh of one or two axes.
        two_axes: (degrees,) 1 where the mesh has two axes.
    """

    def __init__(self, setting: Setting, degrees: Sequence[Degrees], stages: tuple[int, ...] | None = None) -> None:
        self.setting = setting
        self.degrees = tuple(degrees)
        self.rules = OperatorRules(setting.model)
        self.blocks = model_blocks(setting.model)
        self._decisions = {operator.key: column for column, operator in enumerate(self.rules.operators, start=1)}
        self._time_rows: list[FloatArray] = []
        self._memory_rows: list[FloatArray] = []
        self._filled = [0, 0]
        self.two_axes = np.array([int(d.tx > 1) for d in degrees], dtype=np.int64)
        self._meshes = [self._mesh_prices(axes) for axes in (1, 2)]
        self.edges: list[EdgeTable] = []
        self._edge_tables: dict[tuple[Block, Edge], EdgeTable] = {}
        self.operators: list[MemoryTable] = []
        self._known: dict[Hashable, IntArray] = {}
        self._known_memory: dict[Hashable, IntArray] = {}
        for index, block in enumerate(self.blocks):
            self._add_block(index, block)
        self.send_decision, self.send_base = self._add_sends()
        self.times = np.minimum(np.concatenate(self._time_rows), ILLEGAL_SECONDS)
        self.memory = np.concatenate(self._memory_rows)
        self.letters = self._letter_maps()
        self.stages = self._stages(stages)

    def _mesh_prices(self, axes: int) -> tuple[MeshPrices | None, IntArray]:
        """Prices of the meshes with so many axes, and every degrees' key among them (-1 for none)."""
        mine = np.flatnonzero(self.two_axes == axes - 1)
        keys, rows = distinct(mesh_key(self.setting.cluster, self.degrees[index]) for index in mine)
        place = np.full(len(self.degrees), -1, dtype=np.int64)
        place[mine] = rows
        if not keys:
            return None, place
        typed = [key for key in keys if isinstance(key, MeshKey)]
        return MeshPrices(self.setting, Mesh(self.setting.cluster, typed, axes), self.rules), place

    @property
    def prices(self) -> list[MeshPrices]:
        """Prices of the meshes that the degrees have."""
        return [prices for prices, _ in self._meshes if prices is not None]

    def edge_of(self, block: Block, edge: Edge) -> EdgeTable:
        """The table of a block's edge."""
        return self._edge_tables[block, edge]

    def operator(self, block: Block, name: str, *, target: bool = False) -> Operator:
        """The decision behind an operator's name in a block; ``target`` for the later kind of a transition."""
        return self.rules.operators[self._decisions[block.key(name, target=target)] - 1]

    def _store(self, rows: FloatArray, kind: int) -> int:
        """Append rows to the times (0) or the memory (1); the position of the first."""
        (self._time_rows, self._memory_rows)[kind].append(rows)
        first = self._filled[kind]
        self._filled[kind] += len(rows)
        return first

    def _add_block(self, index: int, block: Block) -> None:
        costs = _ExpertTables(self, block) if _is_moe(block) else None
        for edges in joined(block.edges):
            source, target = self._ends(block, edges[0])
            signature = (edges, source.choices, target.choices, *(self._priced_by(block, edge) for edge in edges))
            if signature not in self._known:
                self._known[signature] = self._edge_rows(block, edges, costs)
            columns = self._decisions[source.key], self._decisions[target.key]
            decodes = any(edge.when != "prefill" or edge.charged != "none" for edge in edges)
            self.edges.append(EdgeTable(index, *columns, self._known[signature], positions(target), decodes))
            for edge in edges:
                self._edge_tables[block, edge] = self.edges[-1]
                self._add_memory(index, block, edge, costs)

    def _ends(self, block: Block, edge: Edge) -> tuple[Operator, Operator]:
        return self.operator(block, edge.source), self.operator(block, edge.target, target=True)

    def _priced_by(self, block: Block, edge: Edge) -> Hashable:
        """What, beside the edge itself, its price depends on: shapes, and the legality of the operator it charges."""
        limits = [self.rules.limits(self.operator(block, name)) for name in _charged_operators(edge)]
        return (_shapes(self.setting, block, edge), *limits)

    def _edge_rows(self, block: Block, edges: tuple[Edge, ...], costs: _ExpertTables | None) -> IntArray:
        """First row of joined edges for all degrees."""
        if edges[0].role != "plain":
            assert costs is not None
            return costs.edge_rows(edges[0])
        base = np.zeros(len(self.degrees), dtype=np.int64)
        for prices, place in self._meshes:
            if prices is not None:
                rows = self.plain_seconds(prices, block, edges)
                first = self._store(rows.reshape(-1, rows.shape[-1]), 0)
                mine = place >= 0
                base[mine] = first + place[mine] * rows.shape[1] * rows.shape[2]
        return base

    def plain_seconds(self, prices: MeshPrices, block: Block, edges: tuple[Edge, ...]) -> FloatArray:
        """(keys, source choices, target choices, phases) price of joined edges within the mesh."""
        time = self._edge_seconds(prices, block, edges[0])
        for edge in edges[1:]:
            more = self._edge_seconds(prices, block, edge)
            time = time + (more if edge.source == edges[0].source else more.swapaxes(1, 2))
        return time

    def _edge_seconds(self, prices: MeshPrices, block: Block, edge: Edge) -> FloatArray:
        source, target = self._ends(block, edge)
        moving = prices.conversion(edge, source, target)
        if edge.charged == "none":
            return moving
        working, _ = prices.node(block, source if edge.charged == "source" else target)
        working = working[:, :, None] if edge.charged == "source" else working[:, None]
        return overlapped(moving, working, self.setting.engine.overlap)

    def _add_memory(self, index: int, block: Block, edge: Edge, costs: _ExpertTables | None) -> None:
        for name in _charged_operators(edge):
            operator = self.operator(block, name)
            signature = (operator.name, operator.choices, _shapes(self.setting, block, edge), name)
            if signature not in self._known_memory:
                expert = costs is not None and name.startswith("experts.")
                self._known_memory[signature] = (
                    costs.memory_rows(name) if expert and costs else self._mesh_memory(block, operator)
                )
            self.operators.append(
                MemoryTable(index, self._decisions[operator.key], self._known_memory[signature])
            )

    def _mesh_memory(self, block: Block, operator: Operator) -> IntArray:
        base = np.zeros(len(self.degrees), dtype=np.int64)
        for prices, place in self._meshes:
            if prices is not None:
                _, rows = prices.node(block, operator)
                first = self._store(rows.reshape(-1, rows.shape[-1]), 1)
                mine = place >= 0
                base[mine] = first + place[mine] * rows.shape[1]
        return base

    def _add_sends(self) -> tuple[int, IntArray]:
        """Decision and first row, for all degrees, of the time of all stage boundaries by residual layout.

        Between stages the residual has the layout of the kind with the most layers.
        """
        kinds = self.setting.model.kinds
        decision = self._decisions[f"{max(kinds, key=lambda kind: kinds[kind])}.stream"]
        stream = self.rules.operators[decision - 1]
        base = np.zeros(len(self.degrees), dtype=np.int64)
        for prices, place in self._meshes:
            if prices is None:
                continue
            mine = np.flatnonzero(place >= 0)
            boundaries = [crossings(self.setting.cluster, self.degrees[index]) for index in mine]
            pairs, rows = distinct(zip(place[mine].tolist(), boundaries, strict=True))
            time = send_seconds(prices, stream, pairs)
            first = self._store(time.reshape(-1, time.shape[-1]), 0)
            base[mine] = first + rows * time.shape[1]
        return decision, base

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
        places: dict[int, tuple[int, int, int]] = {}
        for pp in sorted({d.pp for d in self.degrees}):
            counts = block_counts(model, self.blocks, stages or even_stages(len(model.layers), pp))
            heaviest = heaviest_stages(counts)
            places[pp] = (len(rows), len(heaviest), len(totals))
            rows += heaviest
            totals.append(np.sum(counts, axis=0))
        first, many, total = np.array([places[d.pp] for d in self.degrees], dtype=np.int64).T.copy()
        return StageRows(np.array(rows, dtype=np.int64), first, many, np.array(totals, dtype=np.int64), total)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of all tables."""
        return int(self.times.nbytes + self.memory.nbytes + sum(edge.base.nbytes for edge in self.edges))


def _is_moe(block: Block) -> bool:
    return block.layer is not None and isinstance(block.layer.ffn, MoeFfn)


def _charged_operators(edge: Edge) -> tuple[str, ...]:
    if edge.role in ("dispatch", "experts"):
        return (edge.target,)
    names = {"target": (edge.target,), "source": (edge.source,), "none": ()}
    return names[edge.charged]


def _shapes(setting: Setting, block: Block, edge: Edge) -> Hashable:
    """What, beside the edge itself, the price of its operators depends on."""
    layer = block.layer
    if layer is None or edge.charged == "none":
        return None
    if "stream" in (edge.target,) or edge.role != "plain":
        return (layer, block.edges)
    part = layer.mixer if edge.target.startswith("attention.") else layer.ffn
    return part


class _ExpertTables:
    """Rows of the edges and operators of routed experts."""

    def __init__(self, tables: Tables, block: Block) -> None:
        self.tables, self.block = tables, block
        setting = tables.setting
        assert block.layer is not None and isinstance(block.layer.ffn, MoeFfn)
        self.ffn = block.layer.ffn
        keys, self.rows = distinct(
            expert_key(setting.cluster, d, setting.redundant_experts) for d in tables.degrees
        )
        self.costs = ExpertCosts(setting, self.ffn, [key for key in keys if isinstance(key, ExpertKey)])
        self.hidden = setting.model.hidden
        self.stream = tables.operator(block, "stream")

    def _legal(self, name: str) -> NDArray[np.bool_]:
        """(keys, letters) legality of a product's split over etp."""
        operator = self.tables.operator(self.block, name)
        sizes = self.costs.etp[:, 0]
        return np.array(
            [
                [self.tables.setting.padding or not self.tables.rules.breaches(operator, (letter,), (int(size),)) for letter in LETTERS]
                for size in sizes
            ]
        )

    def edge_rows(self, edge: Edge) -> IntArray:
        """First row of an edge for all degrees."""
        if edge.role == "experts":
            time = self.costs.products(self.hidden)
            legal = self._legal("experts.up")[:, :, None] & self._legal("experts.down")[:, None, :]
            time = np.where(legal[..., None], time, np.inf)
            first = self.tables._store(time.reshape(-1, time.shape[-1]), 0)
            return first + self.rows * len(LETTERS) ** 2
        return self._exchange_rows(edge)

    def _exchange_rows(self, edge: Edge) -> IntArray:
        """Dispatch and combine depend on the residual layout on the mesh, too."""
        base = np.zeros(len(self.rows), dtype=np.int64)
        for prices, place in self.tables._meshes:
            if prices is None:
                continue
            mine = np.flatnonzero(place >= 0)
            pairs, rows = distinct(zip(place[mine].tolist(), self.rows[mine].tolist(), strict=True))
            mesh_rows, expert_rows = np.array(pairs, dtype=np.int64).T
            price = dispatch_seconds if edge.role == "dispatch" else combine_seconds
            time = price(prices, self.costs.take(expert_rows), mesh_rows, self.stream)
            if edge.charged == "target" and edge.role == "combine":
                own, _ = prices.node(self.block, self.stream)
                time = overlapped(time, own[mesh_rows][:, None], self.tables.setting.engine.overlap)
            first = self.tables._store(time.reshape(-1, time.shape[-1]), 0)
            base[mine] = first + rows * time.shape[1] * time.shape[2]
        return base

    def memory_rows(self, name: str) -> IntArray:
        """First memory row of an expert product for all degrees."""
        rows = self.costs.memory(self.hidden, up=name == "experts.up")
        first = self.tables._store(rows.reshape(-1, rows.shape[-1]), 1)
        return first + self.rows * len(LETTERS)

