"""Measured collectives and expert exchanges, row by row: the cluster, group and library of a row, and its time."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, regimes, seconds
from lts_bench.cost.exchange import DIRECTIONS, MODES, Direction, Mode, copies, dispatched_bytes, exchange_regimes
from lts_bench.cost.groups import Group, place_group
from lts_bench.cost.kernels import US
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.collectives import CustomAllReduce, Exchange, ExchangeMode
from lts_bench.validate.measured import measured_cluster
from lts_bench.validate.table import Prediction, Row, SkipError, measured, number, predict_each

FloatArray = NDArray[np.float64]
KINDS = {
    "all_reduce": Collective.ALL_REDUCE,
    "all_gather": Collective.ALL_GATHER,
    "reduce_scatter": Collective.REDUCE_SCATTER,
    "alltoall": Collective.ALL_TO_ALL,
}
TOKENS = "num_tokens_per_rank"
"""A column that tables of expert exchanges alone have."""
COPY_EFFICIENCY = 0.85
"""Share of the HBM rate of a copy into the library's own buffers, read and written, outside captured graphs."""
SGLANG_V2 = (0, 5, 11)
"""SGLang's own all-reduce is the default from here on; before, it was vLLM's (public release history)."""


@dataclass(frozen=True, slots=True)
class Library:
    """Whose kernels a row measures.

    Attributes:
        name: None for the vendor's, else the engine's own.
        eager: launched from the host, one by one, not from a captured graph.
    """

    name: str | None
    eager: bool = False


def library_of(text: str) -> Library:
    """Read the ``library`` column, such as ``nccl/2.27.3`` or ``vllm/0.19.0/vLLM_custom_graph``."""
    lower = text.lower()
    eager = lower.endswith("_eager")
    if "mnnvl" in lower:
        return Library("mnnvl", eager)
    if "trtllm" in lower:
        return Library("trtllm", eager)
    if lower.startswith(("vllm", "sglang")):
        version = tuple(map(int, re.findall(r"\d+", lower.partition("/")[2])[:3]))
        return Library("sglang" if lower.startswith("sglang") and version >= SGLANG_V2 else "vllm", eager)
    return Library(None, eager)


def predict(rows: Sequence[Mapping[str, str]]) -> list[Prediction]:
    """Predict ``latency_us`` and ``busbw_GBps`` of collectives, ``dispatch_us`` and ``combine_us`` of exchanges."""
    return predict_each(rows, _predict)


def _predict(row: Row) -> Prediction:
    return _exchange(row) if TOKENS in row else _collective(row)


def _collective(row: Row) -> Prediction:
    kind = KINDS.get(row.get("op_name", "").strip())
    if kind is None:
        raise SkipError(f"unknown collective {row.get('op_name', '')!r}")
    p, n = int(number(row, "num_gpus")), number(row, "message_bytes")
    cluster, library = measured_cluster(row.get("system", ""), p), library_of(row.get("library", ""))
    time = collective_seconds(cluster, kind, p, n, library)
    share = (p - 1) / p * (2 if kind is Collective.ALL_REDUCE else 1)
    values = {"latency_us": time / US, "busbw_GBps": n * share / time / 1e9}
    return Prediction(values, (row["system"], row["op_name"], library.name or "vendor"))


def collective_seconds(cluster: Cluster, kind: Collective, p: int, n: float, library: Library) -> float:
    """Time of a collective of n bytes on the first p devices of a cluster.

    Outside captured graphs an engine's own all-reduce takes its launch at least, and copies its input first.
    """
    group = place_group(cluster, p, p, 1)
    time = float(seconds(regimes(cluster, group, library.name)[None], kind, np.array([[n]]))[0, 0])
    custom: CustomAllReduce | None = cluster.collectives.custom_all_reduce.get(library.name or "")
    if library.eager and custom is not None:
        copied = 2 * n / (COPY_EFFICIENCY * cluster.chip.hbm_bytes_per_s)
        time = max(time + copied, custom.eager_us * US)
    return time


def _exchange(row: Row) -> Prediction:
    routing = routing_of(row)
    modes = routing.cluster.collectives.expert_exchange
    if modes is None:
        raise SkipError(f"no expert exchange of {row['system']} is known")
    constants: ExchangeMode = getattr(modes, routing.mode)
    values = {}
    for way in DIRECTIONS:
        table = routing.regimes(getattr(constants, way), constants.sms)
        values[f"{way}_us"] = float((table[:, 0] + sent_bytes(row, way) * table[:, 1]).min()) / US
    return Prediction(values, (row["system"], routing.mode))


@dataclass(frozen=True)
class Routing:
    """What an exchange's time depends on, its constants and the tokens aside."""

    cluster: Cluster
    devices: int
    mode: Mode
    top_k: float
    sms: int

    @property
    def group(self) -> Group:
        """All devices."""
        return place_group(self.cluster, self.devices, self.devices, 1)

    def regimes(self, constants: Exchange, usual_sms: int) -> FloatArray:
        """(regimes, 2) latency and seconds per byte of a device's tokens."""
        sent = copies(self.group, self.mode, self.top_k)
        return exchange_regimes(self.cluster, self.group, constants, sent, self.sms or usual_sms)


def routing_of(row: Row) -> Routing:
    """The exchange that a row measures; ``num_nodes`` counts hosts."""
    system = row.get("system", "")
    mode = next((each for each in MODES if each == row.get("mode", "").strip()), None)
    if mode is None:
        raise SkipError(f"unknown mode {row.get('mode', '')!r}")
    network = measured_cluster(system, 1).scale_up
    devices = int(number(row, "num_nodes")) * (network.node_devices or network.size)
    sms = int(measured(row, "sms") or 0)
    return Routing(measured_cluster(system, devices), devices, mode, number(row, "topk"), sms)


def sent_bytes(row: Row, way: Direction) -> float:
    """Bytes of a device's tokens, each counted once: fp8 with scales to the experts, bf16 back."""
    hidden = int(number(row, "hidden_size"))
    return number(row, TOKENS) * (dispatched_bytes(hidden, 1) if way == "dispatch" else 2 * hidden)
