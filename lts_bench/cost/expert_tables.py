"""Rows of the edges and operators of routed experts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.edges import combine_seconds, dispatch_seconds, overlapped
from lts_bench.cost.experts import LETTERS, ExpertCosts, expert_key
from lts_bench.cost.graph import Block, Edge
from lts_bench.cost.pricing import Pricing, distinct_keys
from lts_bench.cost.rows import ILLEGAL_SECONDS, IntArray, RowStore, distinct
from lts_bench.specs.layers import MoeFfn


class ExpertTables:
    """Rows of the edges and operators of routed experts."""

    def __init__(self, pricing: Pricing, times: RowStore, memory: RowStore, block: Block) -> None:
        self.pricing, self.block = pricing, block
        self._times, self._memory = times, memory
        setting = pricing.setting
        assert block.layer is not None and isinstance(block.layer.ffn, MoeFfn)
        self.ffn = block.layer.ffn
        keys, self.rows = distinct_keys(
            pricing.degrees,
            lambda d: (d.dp, d.tp, d.ep, d.etp),
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
            pairs, rows = distinct(zip(place[mine].tolist(), self.rows[mine].tolist(), strict=True))
            mesh_rows, expert_rows = np.array(pairs, dtype=np.int64).T
            price = dispatch_seconds if edge.role == "dispatch" else combine_seconds
            time = price(prices, self.costs.take(expert_rows), mesh_rows, self.stream)
            if edge.charged == "target" and edge.role == "combine":
                own, _ = prices.node(self.block, self.stream)
                time = overlapped(time, own[mesh_rows][:, None], self.pricing.setting.engine.overlap)
            base[mine] = self._times.add(time) + rows * time.shape[1] * time.shape[2]
        return base

    def memory_rows(self, name: str) -> IntArray:
        """First memory row of an expert product for all degrees."""
        rows = self.costs.memory(self.hidden, up=name == "experts.up")
        return self._memory.add(rows) + self.rows * len(LETTERS)
