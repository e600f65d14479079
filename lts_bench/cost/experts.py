"""Routed experts: the exchange of tokens over the expert ranks, and the grouped products.

Devices of a stage are numbered (dp, tp); consecutive ones form an expert-tensor group of ``etp``, and devices of equal
place in their groups form the ``ep`` ranks. Tokens replicated over tp are sliced before dispatch and gathered after;
the other way, all tokens are gathered on every device and partial results are reduced. The cheaper one is taken,
for dispatch and combine apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.collectives import Collective, least, seconds
from lts_bench.cost.exchange import DIRECTIONS, MODES, Direction, Mode, dispatched_bytes
from lts_bench.cost.groups import Group, place_group
from lts_bench.cost.kernels import TILE, distinct_experts, expert_rate
from lts_bench.cost.network import Network
from lts_bench.cost.nodes import ACTIVATION_BYTES, BUFFER, WEIGHTS, Setting, local_features, mean_weight_bytes
from lts_bench.cost.signatures import PROJECTION
from lts_bench.space.operators import MATMUL
from lts_bench.space.strategy import Degrees
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.formats import DTYPE_BYTES
from lts_bench.specs.layers import MoeFfn

FloatArray = NDArray[np.float64]
LETTERS = MATMUL


class ExpertKey(NamedTuple):
    """What the cost of routed experts depends on beside the tensor-parallel mesh."""

    dp: int
    tp: int
    ep: int
    etp: int
    redundant: int
    ep_group: Group
    etp_group: Group
    dp_group: Group


def expert_key(cluster: Cluster, degrees: Degrees, redundant: int = 0) -> ExpertKey:
    """The key of a strategy's experts."""
    d, stage = degrees, degrees.stage
    return ExpertKey(
        d.dp,
        d.tp,
        d.ep,
        d.etp,
        redundant,
        place_group(cluster, stage, d.ep, d.etp),
        place_group(cluster, stage, d.etp, 1),
        place_group(cluster, stage, d.dp, d.tp),
    )


def _scattered(table: FloatArray, n: FloatArray) -> FloatArray:
    """Partial sums to shares of the whole: a reduce-scatter, or an all-reduce where that has the lesser latency."""
    both = seconds(table, Collective.REDUCE_SCATTER, n), seconds(table, Collective.ALL_REDUCE, n)
    return np.minimum(*both)


def _column(values: Sequence[int]) -> FloatArray:
    return np.array(values, dtype=np.float64)[:, None]


def _exchanges(network: Network, groups: Sequence[Group], top_k: float) -> dict[Direction, dict[Mode, FloatArray]]:
    """(groups, regimes, 2) of every direction and mode."""
    return {
        direction: {mode: network.exchanges(groups, mode, direction, top_k) for mode in MODES}
        for direction in DIRECTIONS
    }


class ExpertCosts:
    """Prices of one kind of expert layer on many keys; every array begins with the keys."""

    def __init__(self, setting: Setting, ffn: MoeFfn, keys: Sequence[ExpertKey]) -> None:
        self.setting, self.ffn, self.keys = setting, ffn, tuple(keys)
        self.weights = setting.model.precision.weights("experts")
        self.dp, self.tp = _column([key.dp for key in keys]), _column([key.tp for key in keys])
        self.ep, self.etp = _column([key.ep for key in keys]), _column([key.etp for key in keys])
        self.placed = ffn.experts + _column([key.redundant for key in keys])
        self.slots = np.ceil(self.placed / self.ep)
        self.over_experts = _exchanges(setting.network, [key.ep_group for key in keys], ffn.mean_top_k)
        self.over_etp = setting.network.regimes([key.etp_group for key in keys])
        self.over_dp = setting.network.regimes([key.dp_group for key in keys])
        self.tokens = setting.phases.tokens_of(self.dp)

    @property
    def _distinct_tokens(self) -> FloatArray:
        """Tokens of which an expert rank holds at least one copy: T·(1 − (1 − 1/ep)^k)."""
        missed: FloatArray = (1 - 1 / self.ep) ** self.ffn.mean_top_k
        return self.tokens * (1 - missed)

    def _exchange(self, direction: Direction, token_bytes: float) -> FloatArray:
        """(keys, phases) routed tokens to the experts or back; steps that decode alone may go the low-latency way."""
        sent = np.ceil(self.setting.phases.tokens[None] / self.tp) * token_bytes
        prefills = self.setting.phases.prefilled > 0
        ways = self.over_experts[direction]
        normal, low_latency = least(ways["normal"], sent), least(ways["low_latency"], sent)
        return np.where(prefills, normal, np.minimum(normal, low_latency))

    def routed_in(self, hidden: int) -> dict[bool, FloatArray]:
        """(keys, phases) from tokens split over tp to the experts; True where every device of etp needs all tokens."""
        sent = self._exchange("dispatch", dispatched_bytes(hidden, DTYPE_BYTES[self.weights.activation]))
        gathered = self._distinct_tokens * hidden * ACTIVATION_BYTES
        return {False: sent, True: sent + seconds(self.over_etp, Collective.ALL_GATHER, gathered)}

    def routed_out(self, hidden: int) -> dict[str, FloatArray]:
        """(keys, phases) back to tokens split over tp, by the split of the down projection."""
        held = self._distinct_tokens * hidden * ACTIVATION_BYTES
        back = self._exchange("combine", hidden * ACTIVATION_BYTES)
        return {
            "K": back + _scattered(self.over_etp, held),
            "N": back + seconds(self.over_etp, Collective.ALL_TO_ALL, held / self.etp),
            "M": back,
            "R": back,
        }

    def everywhere(self, hidden: int) -> tuple[FloatArray, FloatArray]:
        """(gather, reduce) over dp of all tokens, each (keys, phases): the exchange without routing."""
        n = self.tokens * hidden * ACTIVATION_BYTES
        return (
            seconds(self.over_dp, Collective.ALL_GATHER, n),
            _scattered(self.over_dp, n),
        )

    def _load(self, tokens: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """(copies, the same padded to tiles, distinct experts) of the most loaded rank.

        Tokens of an expert fall at random: its last tile is half full in the mean. Copies of the most loaded experts
        take the imbalance down.
        """
        replication = self.placed / self.ffn.experts
        imbalance = 1 + (self.setting.engine.expert_imbalance - 1) * (self.ep > 1) / replication
        copies = tokens * self.ffn.mean_top_k * self.slots / self.placed * imbalance
        share, shape = self.ffn.mean_top_k / self.ffn.experts, self.setting.engine.expert_popularity_shape
        touched = self.slots * distinct_experts(1.0, share, tokens, shape)
        return copies, np.maximum(touched * TILE, copies + touched * TILE / 2), touched

    def _part(self, hidden: int, letter: str, *, up: bool) -> tuple[FloatArray, FloatArray]:
        """(keys, 1) output and input features of one expert's product on a device, gate and up side by side."""
        rows, columns = (self.ffn.width, hidden) if up else (hidden, self.ffn.width)
        block, whole = self.weights.block or (1, 1), np.ones_like(self.etp)
        n = local_features(rows, 1, self.etp if letter == "N" else whole, block[0])
        k = local_features(columns, 1, self.etp if letter == "K" else whole, block[1])
        return n * (2 if up and self.ffn.gated else 1), k

    def products(self, hidden: int) -> FloatArray:
        """(keys, up letters, down letters, phases) grouped products of the most loaded rank."""
        rate = expert_rate(self.setting.cluster.chip, self.weights)
        element = mean_weight_bytes(self.weights)
        halves = [np.empty((len(self.keys), len(LETTERS), len(self.setting.phases))) for _ in range(2)]
        for share, letters in ((self.etp, "M"), (1.0, "KNR")):
            copies, rows, touched = self._load(np.ceil(self.tokens / share))
            handling = rate.handling_seconds(copies, self._distinct_tokens / share, hidden) / 2
            for half, up in zip(halves, (True, False), strict=True):
                for letter in letters:
                    n, k = self._part(hidden, letter, up=up)
                    half[:, LETTERS.index(letter)] = rate.product_seconds(rows, touched, n, k, element) + handling
        up_width = self.ffn.width * (2 if self.ffn.gated else 1)
        return halves[0][:, :, None] + halves[1][:, None, :] + self._between(up_width)

    def _between(self, up_width: int) -> FloatArray:
        """(keys, up letters, down letters, phases) conversion of the intermediate between the two products."""
        mid = self.tokens * self.ffn.mean_top_k / self.ep * self.ffn.width * ACTIVATION_BYTES
        out = {letter: PROJECTION.decode.left((letter,))[0] for letter in LETTERS}
        need = {letter: PROJECTION.decode.needed((letter,))[0] for letter in LETTERS}
        over = self.over_etp
        costs = {
            ("M", "N"): seconds(over, Collective.ALL_TO_ALL, mid / self.etp),
            ("M", "R"): seconds(over, Collective.ALL_GATHER, mid),
            ("N", "M"): seconds(over, Collective.ALL_TO_ALL, mid / self.etp),
            ("N", "R"): seconds(over, Collective.ALL_GATHER, mid),
            ("P", "M"): _scattered(over, mid * up_width / self.ffn.width),
            ("P", "N"): _scattered(over, mid * up_width / self.ffn.width),
            ("P", "R"): seconds(over, Collective.ALL_REDUCE, mid * up_width / self.ffn.width),
        }
        nothing = np.zeros_like(mid)
        rows = [[costs.get((out[up], need[down]), nothing) for down in LETTERS] for up in LETTERS]
        return np.moveaxis(np.array(rows), 2, 0)

    def memory(self, hidden: int, up: bool) -> FloatArray:
        """(keys, letters, 4) weights of a rank's expert slots and the routed tokens of a prefill step."""
        width = self.ffn.width * (2 if up and self.ffn.gated else 1)
        memory = np.zeros((len(self.slots), len(LETTERS), 4))
        prompt = min(self.setting.phases.workload.isl, self.setting.engine.max_prefill_tokens)
        copies = prompt * self.dp[:, 0] * self.ffn.mean_top_k / self.ep[:, 0] * self.setting.engine.expert_imbalance
        for column, letter in enumerate(LETTERS):
            n, k = self._part(hidden, letter, up=up)
            weights = self.slots * n * k * mean_weight_bytes(self.weights)
            memory[:, column, WEIGHTS] = weights[:, 0]
            memory[:, column, BUFFER] = copies * (hidden + width) * ACTIVATION_BYTES
        return memory
