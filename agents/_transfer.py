"""What a policy that is used on many tasks sees of a choice: names, numbers and ratios, never a place in a space."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lts_bench.baselines.megatron_search import weight_bytes
from lts_bench.space.decisions import Space
from lts_bench.space.disaggregated import POOLS
from lts_bench.space.operators import MEGATRON
from lts_bench.space.patterns import COLUMNS, DP, EP, ETP, PP, REPLICAS, TX, TY, operator_name

LETTERS = ("R", "M", "K", "N", "heads", "batch", "kv_sequence", "vocabulary", "hidden")
PAIRS = len(LETTERS) ** 2
UNDECIDED = PAIRS
OPERATORS = tuple(MEGATRON)
ALIASES = {
    "attention.q_up": "attention.qkv",
    "attention.kv_up": "attention.qkv",
    "attention.q_down": "router",
    "attention.kv_down": "router",
}
"""Operators that few models have → the one whose place in a layer is the same."""
NO_TTFT_S, NO_TPOT_S = 60.0, 1.0
"""Limits that hardly bind, for tasks without."""


class Inputs:
    """What the networks read of one task.

    Attributes:
        of_degrees: (degrees, inputs) of each pool: of one, or where serving is disaggregated of two.
        order: operators (columns of a vector but the first) in the order in which they are drawn.
    """

    def __init__(self, space: Space, features: Mapping[str, float]) -> None:
        task = np.tile(_task_inputs(features), (len(space.degrees), 1))
        pools = np.split(space.degrees.astype(float), space.degrees.shape[1] // COLUMNS, axis=1)
        self.of_degrees = [np.concatenate((task, _ratios(pool, features)), axis=1) for pool in pools]
        self._pairs = [_pairs(labels) for labels in space.choices[1:]]
        names = space.names[1:]
        operators = [operator_name(name) for name in names]
        kinds = [name.removesuffix(operator) for name, operator in zip(names, operators, strict=True)]
        self._pools = [len(pools) - 1 if kind.startswith(POOLS[1]) else 0 for kind in kinds]
        self._operators = np.array([OPERATORS.index(ALIASES.get(name, name)) for name in operators])
        self.order = sorted(range(len(names)), key=lambda at: (_stage(operators[at]), at))
        self._near = [_near(at, names, operators, kinds) for at in range(len(names))]

    def of_operator(self, degrees: np.ndarray, drawn: np.ndarray, operator: int) -> np.ndarray:
        """Return inputs (n, inputs) of an operator.

        Args:
            degrees: (n,) indices.
            drawn: (n, operators) choices, -1 where undecided.
            operator: its column.
        """
        own = np.tile(np.eye(len(OPERATORS))[self._operators[operator]], (len(degrees), 1))
        near = [self._letters(drawn, other) for other in self._near[operator]]
        return np.concatenate((self.of_degrees[self._pools[operator]][degrees], own, *near), axis=1)

    def scores(self, logits: np.ndarray, operator: int, legal: np.ndarray) -> np.ndarray:
        """Return (n, choices) the logits of an operator's legal choices from those of all pairs of letters."""
        pairs = self._pairs[operator]
        return np.where(legal[:, : len(pairs)], logits[:, pairs], -np.inf)

    def pairs(self, operator: int) -> np.ndarray:
        """Return (choices,) the pair of letters that each choice of an operator is."""
        return self._pairs[operator]

    def _letters(self, drawn: np.ndarray, operator: int | None) -> np.ndarray:
        """Return (n, axes · letters) one-hot letters of a choice, zeros where it is undecided."""
        if operator is None:
            return np.zeros((len(drawn), 2 * len(LETTERS)))
        pairs = np.where(drawn[:, operator] < 0, UNDECIDED, self._pairs[operator][drawn[:, operator]])
        return ONE_HOT[pairs]


def _one_hot() -> np.ndarray:
    own = np.eye(len(LETTERS))
    pairs = [np.concatenate((x, y)) for x in own for y in own]
    return np.array([*pairs, np.zeros(2 * len(LETTERS))])


ONE_HOT = _one_hot()
"""(pairs + 1, axes · letters): of every pair of letters, and zeros for what is undecided."""


def _pairs(labels: tuple[str, ...]) -> np.ndarray:
    split = [("R," + label).split(",")[-2:] for label in labels]
    return np.array([len(LETTERS) * LETTERS.index(x) + LETTERS.index(y) for x, y in split])


def _stage(operator: str) -> int:
    """Return when an operator is drawn: residuals first, then attention cores, then all else."""
    return {"stream": 0, "attention.core": 1}.get(operator, 2)


def _near(at: int, names: tuple[str, ...], operators: list[str], kinds: list[str]) -> list[int | None]:
    """Return the residual and the core of an operator's layer kind and the operator before it, as far as drawn."""
    streams = [column for column, operator in enumerate(operators) if operator == "stream"]
    outside = operators[at] in ("embed", "head")
    own = [column for column in streams if kinds[column].startswith(kinds[at])]
    stream = own[0]
    core = names.index(f"{kinds[stream]}attention.core") if f"{kinds[stream]}attention.core" in names else None
    if operators[at] == "stream":
        return [None, None, streams[streams.index(at) - 1] if at != streams[0] else None]
    if operators[at] == "attention.core":
        return [stream, None, None]
    return [stream, core, None if outside else at - 1]


def _task_inputs(features: Mapping[str, float]) -> np.ndarray:
    """Return (inputs,) what matters of a task whatever is chosen."""
    f = features
    counts = ("isl", "osl", "layers", "hidden", "heads", "experts", "top_k", "devices", "domain_devices")
    up, out = f["scale_up_bytes_per_s"], f["scale_out_bytes_per_s"]
    ratios = (
        f["active_parameters"] / f["parameters"],
        f["kv_bytes_per_token"] / (f["hidden"] * f["layers"]),
        f["peak_bf16_flops_per_s"] / f["hbm_bytes_per_s"],
        f["hbm_bytes_per_s"] / up,
        out / up if out else 1.0,
        f["scale_out_oversubscription"],
        f["ttft_limit_s"] or NO_TTFT_S,
        f["tpot_limit_s"] or NO_TPOT_S,
    )
    logarithms = np.log2([*(1.0 + f[name] for name in counts), *ratios])
    return np.append(logarithms, [f["torus"], f["full_mesh"], float(f["experts"] > 0)])


def _ratios(degrees: np.ndarray, features: Mapping[str, float]) -> np.ndarray:
    """Return (degrees, inputs): their logarithms, and what they hold, read and send ÷ what there is."""
    f = features
    tp, stage = degrees[:, TX] * degrees[:, TY], degrees[:, DP] * degrees[:, TX] * degrees[:, TY]
    replica, domain = stage * degrees[:, PP], f["domain_devices"]
    room = f["hbm_bytes"] * f["memory_fraction"]
    merged = degrees.copy()
    merged[:, TY] = tp
    weights = weight_bytes(merged, f)
    context = f["kv_bytes_per_token"] * (f["isl"] + f["osl"] / 2.0) / (degrees[:, PP] * tp)
    ttft, tpot = f["ttft_limit_s"] or NO_TTFT_S, f["tpot_limit_s"] or NO_TPOT_S
    computing = 2.0 * f["active_parameters"] * f["isl"] / (f["peak_bf16_flops_per_s"] * tp)
    sending = np.where(tp > 1, 4.0 * f["layers"] * f["isl"] * f["hidden"] / f["scale_up_bytes_per_s"], 1e-6)
    shares = (
        tp / domain,
        stage / domain,
        replica / domain,
        replica / f["devices"],
        weights / room,
        np.maximum(room - weights, 0.01 * room) / context,
        weights * degrees[:, PP] / f["hbm_bytes_per_s"] / tpot,
        computing / ttft,
        sending / ttft,
        (1.0 + f["experts"]) / degrees[:, EP],
        degrees[:, EP] / domain,
    )
    logarithms = np.log2(np.concatenate((degrees[:, REPLICAS : ETP + 1].T, shares)))
    flags = (tp > domain, stage > domain, replica > domain, weights > room, degrees[:, TX] > 1)
    return np.concatenate((logarithms, np.array(flags, dtype=float))).T
