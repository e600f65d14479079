from __future__ import annotations

from typing import Any

import pytest

from lts_bench.specs.failure import InputError
from lts_bench.specs.loading import convert
from lts_bench.specs.topology import ScaleOut, ScaleUp

UP: dict[str, Any] = {"kind": "switch", "size": 8, "bytes_per_s": 450e9}
OUT: dict[str, Any] = {"kind": "rail", "bytes_per_s": 50e9, "latency_us": 10, "efficiency": 0.9}
DRAGONFLY = {"devices_per_router": 8, "global_links": 4, "global_bytes_per_s": 50e9, "groups": 8}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "torus"}, "net: shape: belongs to a torus"),
        ({"shape": [2, 4]}, "net: shape: belongs to a torus"),
        ({"kind": "torus", "shape": [3, 3]}, "net: size: must be the product of shape (got 8); legal: 9"),
        ({"kind": "torus", "shape": [2, 0]}, "net: shape[1]: must be >= 1"),
        ({"kind": "ring"}, "net: kind: not a legal value (got 'ring'); legal: full_mesh, switch, torus"),
        ({"node_devices": 0}, "net: node_devices: must be >= 1"),
        ({"bytes_per_s": 0}, "net: bytes_per_s: must be > 0"),
    ],
)
def test_scale_up_rules(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(UP | change, ScaleUp, "net")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"kind": "dragonfly"}, "net: devices_per_router: belongs to a dragonfly"),
        ({"groups": 3}, "net: groups: belongs to a dragonfly"),
        ({"oversubscription": 2}, "net: block_devices: required where oversubscription > 1"),
        ({"oversubscription": 0.5}, "net: oversubscription: must be >= 1"),
        ({"relative_error": {"latency": 0.1}}, "net: relative_error.latency: unknown key; did you mean 'latency_us'?"),
        ({"relative_error": {"efficiency": -0.1}}, "net: relative_error.efficiency: must be >= 0"),
    ],
)
def test_scale_out_rules(change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError) as caught:
        convert(OUT | change, ScaleOut, "net")
    assert told in str(caught.value)


def test_every_kind_can_be_given() -> None:
    assert convert(UP, ScaleUp, "net").shape is None
    assert convert(UP | {"kind": "torus", "shape": [2, 4]}, ScaleUp, "net").shape == (2, 4)
    assert convert(OUT | {"oversubscription": 4, "block_devices": 64}, ScaleOut, "net").block_devices == 64
    assert convert(OUT | {"kind": "dragonfly"} | DRAGONFLY, ScaleOut, "net").groups == 8
