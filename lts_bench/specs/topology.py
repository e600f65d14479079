"""The networks of a cluster: the scale-up domain of a node or rack, and the scale-out network between domains."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from lts_bench.specs.loading import AtLeastOne, Count, NonNegative, Positive, RuleError, Share

ScaleUpKind = Literal["switch", "full_mesh", "torus"]
ScaleOutKind = Literal["rail", "fat_tree", "dragonfly"]


class Regimes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A collective's two regimes on p devices: it takes the lesser of their times.

    Small messages: latency_us + latency_per_doubling_us·(log2 p − 1) + volume / (efficiency · rate); large ones:
    large_latency_us + volume / (large_efficiency · rate). The volume is 2n(p − 1)/p of an all-reduce, else n(p − 1)/p.
    On a torus latency_us is that of a hop and large_efficiency alone counts.
    """

    latency_us: NonNegative
    latency_per_doubling_us: NonNegative
    efficiency: Share
    large_latency_us: NonNegative
    large_efficiency: Share


class ScaleUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fast network inside a domain.

    Attributes:
        kind: switch, full_mesh (a link between every two devices) or torus.
        size: devices of a domain.
        shape: the torus axes; their product is ``size``.
        wrap_multiple: a torus axis wraps around when its size is a multiple of this and a group spans it wholly.
        bytes_per_s: per direction and device (switch), pair (full_mesh) or link (torus).
        all_reduce: regimes of an all-reduce.
        all_gather: regimes of an all-gather and a reduce-scatter.
        all_to_all: regimes of an all-to-all and of a message between two devices.
        low_latency_devices: the largest group that one-step all-reduces reach (a tray); None for the whole domain.
    """

    kind: ScaleUpKind
    size: Count
    bytes_per_s: Positive
    all_reduce: Regimes
    all_gather: Regimes
    all_to_all: Regimes
    shape: tuple[Count, ...] | None = None
    wrap_multiple: Count = 1
    low_latency_devices: Count | None = None

    def __post_init__(self) -> None:
        if (self.kind == "torus") != (self.shape is not None):
            raise RuleError("belongs to a torus, and to a torus only", field="shape", value=self.shape)
        if self.shape is not None and math.prod(self.shape) != self.size:
            raise RuleError(
                "must be the product of shape", field="size", value=self.size, legal=(math.prod(self.shape),)
            )


class ScaleOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The network between domains.

    Attributes:
        kind: rail (a switch plane per local rank), fat_tree or dragonfly.
        bytes_per_s: injection rate per device and direction.
        latency_us: latency of one step.
        efficiency: share of the rate that large transfers reach.
        oversubscription: injection ÷ bisection above a block (1 for none).
        block_devices: devices below the oversubscribed level; None for the whole cluster.
        devices_per_router: dragonfly: devices of one router.
        global_links: dragonfly: global links of one router.
        global_bytes_per_s: dragonfly: rate of one global link and direction.
        groups: dragonfly: groups that the devices are spread over evenly.
    """

    kind: ScaleOutKind
    bytes_per_s: Positive
    latency_us: NonNegative
    efficiency: Share
    oversubscription: AtLeastOne = 1.0
    block_devices: Count | None = None
    devices_per_router: Count | None = None
    global_links: Count | None = None
    global_bytes_per_s: Positive | None = None
    groups: Count | None = None

    def __post_init__(self) -> None:
        for field in ("devices_per_router", "global_links", "global_bytes_per_s", "groups"):
            if (self.kind == "dragonfly") != (getattr(self, field) is not None):
                raise RuleError("belongs to a dragonfly, and to a dragonfly only", field=field)
        if self.oversubscription > 1 and self.block_devices is None:
            raise RuleError("required where oversubscription > 1", field="block_devices")
