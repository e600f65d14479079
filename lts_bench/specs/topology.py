"""The networks of a cluster: the scale-up domain of a node or rack, and the scale-out network between domains."""

from __future__ import annotations

import math
from typing import Literal

import msgspec

from lts_bench.specs.loading import AtLeastOne, Count, NonNegative, Positive, RuleError, Share

ScaleUpKind = Literal["switch", "full_mesh", "torus"]
ScaleOutKind = Literal["rail", "fat_tree", "dragonfly"]


class ScaleUp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The fast network inside a domain.

    Attributes:
        kind: switch, full_mesh (a link between every two devices) or torus.
        size: devices of a domain.
        shape: the torus axes; their product is ``size``.
        wrap_multiple: a torus axis wraps around when its size is a multiple of this and a group spans it wholly.
        bytes_per_s: per direction and device (switch), pair (full_mesh) or link (torus).
        node_devices: devices of one host where a domain holds several; None for the whole domain.
    """

    kind: ScaleUpKind
    size: Count
    bytes_per_s: Positive
    shape: tuple[Count, ...] | None = None
    wrap_multiple: Count = 1
    node_devices: Count | None = None

    def __post_init__(self) -> None:
        if (self.kind == "torus") != (self.shape is not None):
            raise RuleError("belongs to a torus, and to a torus only", field="shape", value=self.shape)
        if self.shape is not None and math.prod(self.shape) != self.size:
            raise RuleError(
                "must be the product of shape", field="size", value=self.size, legal=(math.prod(self.shape),)
            )


class LinkErrors(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Standard errors of a network's constants of the same names, as shares of them; assumed where left out."""

    latency_us: NonNegative = 0.5
    efficiency: NonNegative = 0.2


class ScaleOut(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The network between domains.

    Attributes:
        kind: rail (a switch plane per local rank), fat_tree or dragonfly.
        bytes_per_s: injection rate per device and direction.
        latency_us: latency of one step.
        efficiency: share of the rate that large transfers reach.
        oversubscription: injection ÷ bisection above a block (1 for none).
        block_devices: devices below the oversubscribed level; None for the whole cluster.
        in_network_reduction: switches add up an all-reduce (SHARP).
        devices_per_router: dragonfly: devices of one router.
        global_links: dragonfly: global links of one router.
        global_bytes_per_s: dragonfly: rate of one global link and direction.
        groups: dragonfly: groups that the devices are spread over evenly.
        relative_error: how far the constants may be off.
    """

    kind: ScaleOutKind
    bytes_per_s: Positive
    latency_us: NonNegative
    efficiency: Share
    oversubscription: AtLeastOne = 1.0
    block_devices: Count | None = None
    in_network_reduction: bool = False
    devices_per_router: Count | None = None
    global_links: Count | None = None
    global_bytes_per_s: Positive | None = None
    groups: Count | None = None
    relative_error: LinkErrors = LinkErrors()

    def __post_init__(self) -> None:
        for field in ("devices_per_router", "global_links", "global_bytes_per_s", "groups"):
            if (self.kind == "dragonfly") != (getattr(self, field) is not None):
                raise RuleError("belongs to a dragonfly, and to a dragonfly only", field=field)
        if self.oversubscription > 1 and self.block_devices is None:
            raise RuleError("required where oversubscription > 1", field="block_devices")
