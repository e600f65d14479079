"""Rows of the edges and operators of routed experts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.edges import MeshPrices, overlapped
from lts_bench.cost.expert_edges import GIVE_BACK, TAKE_ALL, chunks, combine_ways, dispatch_ways
from lts_bench.cost.experts import LETTERS, ExpertCosts, expert_key
from lts_bench.cost.graph import Block, Edge
from lts_bench.cost.pricing import Pricing
from lts_bench.cost.rows import ILLEGAL_SECONDS, DistinctRows, IntArray, RowStore, distinct_rows
from lts_bench.specs.layers import MoeFfn

FloatArray = NDArray[np.float64]


class ExpertTables:
    """Rows of the edges and operators of routed experts."""

    def __init__(self, pricing: Pricing, times: DistinctRows, memory: RowStore, block: Block) -> None:
        self.pricing, self.block = pricing, block
        self._times, self._memory = times, memory
        setting = pricing.setting
        assert block.layer is not None and isinstance(block.layer.ffn, MoeFfn)
        self.ffn = block.layer.ffn
        keys, self.rows = pricing.distinct_keys(
            np.arange(len(pricing.degrees)),
            ("dp", "tp", "ep", "etp"),
            lambda d: expert_key(setting.cluster, d, setting.redundant_experts),
        )
        self.costs = ExpertCosts(setting, self.ffn, keys)
        self.hidden = setting.model.hidden
        self.stream = pricing.operator(block, "stream")

    def _legal(self, name: str) -> NDArray[np.bool_]:
        """(keys, letters) legality of a product's split over etp."""
        operator, rules = self.pricing.operator(self.block, name), self.pricing.rules
        if self.pricing.setting.padding:
            return np.ones((len(self.costs.etp), len(LETTERS)), dtype=np.bool_)
        sizes, places = np.unique(self.costs.etp[:, 0].astype(int), return_inverse=True)
        breaches = [[rules.breaches(operator, (letter,), (size,)) for letter in LETTERS] for size in sizes.tolist()]
        return np.array([[not each for each in of_size] for of_size in breaches])[places]

    def edge_rows(self, edge: Edge) -> IntArray:
        """First row of an edge for all degrees."""
        if edge.role == "experts":
            time = self.costs.products(self.hidden)
            legal = self._legal("experts.up")[:, :, None] & self._legal("experts.down")[:, None, :]
            time = np.where(legal[..., None], time, ILLEGAL_SECONDS)
            return self._times.add(time) + self.rows * len(LETTERS) ** 2
        return self._exchange_rows(edge)

    def _exchange_rows(self, edge: Edge) -> IntArray:
        """Dispatch and combine depend on the residual layout on the mesh, too."""
        base = np.zeros(len(self.rows), dtype=np.int64)
        for prices, place in self.pricing.meshes():
            mine = np.flatnonzero(place >= 0)
            pairs = np.stack((place[mine], self.rows[mine]), axis=1)
            first, rows = distinct_rows(pairs)
            if edge.role == "dispatch":
                time, choices = self._dispatched(prices, pairs[first])
            else:
                time, choices = self._combined(prices, pairs[first], edge.charged == "target")
            base[mine] = self._times.add(time, choices) + rows * choices.size
        return base

    def _dispatched(self, prices: MeshPrices, pairs: IntArray) -> tuple[FloatArray, IntArray]:
        """(pairs, stream choices, 2, phases) seconds, and (stream choices, up letters) which of a pair's rows holds."""
        ways = dispatch_ways(prices, self.costs, self.stream)
        time = np.empty((len(pairs), ways.parts.shape[1], len(ways.routed), ways.parts.shape[2]))
        for place, mesh, experts in chunks(pairs):
            time[place] = ways.priced(mesh, experts).swapaxes(1, 2)
        return time, np.arange(time[0, ..., 0].size).reshape(time.shape[1:3])[:, TAKE_ALL]

    def _combined(self, prices: MeshPrices, pairs: IntArray, charged: bool) -> tuple[FloatArray, IntArray]:
        """(pairs, ways back, stream choices, phases) seconds, and (down letters, stream choices) which row holds."""
        ways, overlap = combine_ways(prices, self.costs, self.stream), self.pricing.setting.engine.overlap
        own = prices.node(self.block, self.stream)[0]
        time = np.empty((len(pairs), len(ways.routed), *ways.parts.shape[1:]))
        for place, mesh, experts in chunks(pairs):
            moving = ways.priced(mesh, experts)
            time[place] = overlapped(moving, own[mesh][:, None], overlap) if charged else moving
        return time, np.arange(time[0, ..., 0].size).reshape(time.shape[1:3])[GIVE_BACK]

    def memory_rows(self, name: str) -> IntArray:
        """First memory row of an expert product for all degrees."""
        rows = self.costs.memory(self.hidden, up=name == "experts.up")
        return self._memory.add(rows) + self.rows * len(LETTERS)
