from __future__ import annotations

import msgspec
import pytest

from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import Engine, load_engine
from lts_bench.specs.workload import Workload
from lts_bench.validate.deployment import Deployment, megatron
from lts_bench.validate.table import SkipError

MODEL, GENERIC = load_model("llama-3.1-8b"), load_engine("generic")
ONE = {"tp": 1, "pp": 1, "dp": 1}
USABLE = load_cluster("h100x1").chip.hbm_bytes_usable
KV_BYTES = 2 * 8 * 128 * 32 * 2
"""Of a token: keys and values of 8 heads of 128 in 32 layers, 2 bytes each."""
WEIGHT_BYTES = 2 * 8_030_261_248
BUFFER_BYTES = 8192 * 14336 * 2 * 2
"""Gate and up of a prefill step."""


def deployment(engine: Engine = GENERIC, **workload: float) -> Deployment:
    cluster = load_cluster("h100x1")
    return Deployment(MODEL, cluster, engine, Workload(1024, 512, **workload), megatron(MODEL, cluster, ONE))  # type: ignore[arg-type]


def test_capacity_by_hand() -> None:
    left = 0.9 * USABLE - WEIGHT_BYTES
    assert deployment().capacity == pytest.approx((left - BUFFER_BYTES) / ((1024 + 256) * KV_BYTES), rel=0.01)
    full = msgspec.structs.replace(GENERIC, kv_reservation="full")
    assert deployment(full).capacity == pytest.approx((left - BUFFER_BYTES) / ((1024 + 512) * KV_BYTES), rel=0.01)


def test_capacity_of_a_share_of_what_is_free() -> None:
    free = USABLE - WEIGHT_BYTES - BUFFER_BYTES
    found = deployment(free_memory_fraction=0.5).capacity
    assert found == pytest.approx(0.5 * free / ((1024 + 256) * KV_BYTES), rel=0.01)


def test_capacity_is_limited_by_the_engine_and_by_the_weights() -> None:
    assert deployment(msgspec.structs.replace(GENERIC, max_batch=7)).capacity == 7
    assert deployment(msgspec.structs.replace(GENERIC, memory_fraction=0.1)).capacity == 0


def test_rounds_at_any_batch() -> None:
    served = deployment()
    few, many = served.at(3), served.at(200)
    assert served.at(3) == few
    assert few.decode < many.decode
    # a = b / osl prompts a round for one rank.
    assert (few.waits, many.waits) == pytest.approx((3 / 512, 200 / 512))


def test_prompts_of_a_static_batch_are_prefilled_together() -> None:
    one, eight = (
        Deployment(MODEL, load_cluster("h100x1"), GENERIC, Workload(1024, 512),
                   megatron(MODEL, load_cluster("h100x1"), ONE), prompts).at(1)
        for prompts in (1, 8)
    )  # fmt: skip
    assert 7 < eight.prefill / one.prefill < 8
    assert eight.decode == one.decode


@pytest.mark.parametrize(
    ("degrees", "told"),
    [
        ({"tp": 16}, "tp · dp · pp = 16 exceeds the 8 devices"),
        ({"pp": 10**9}, "exceeds the 8 devices"),
        ({"dp": 2}, "dp 2: use replicas instead"),
    ],
)
def test_what_is_not_legal(degrees: dict[str, int], told: str) -> None:
    with pytest.raises(SkipError, match=told):
        megatron(MODEL, load_cluster("h100x8"), ONE | degrees)


def test_more_stages_than_layers() -> None:
    with pytest.raises(SkipError, match="pp 64 exceeds the model's 32 layers"):
        megatron(MODEL, load_cluster("h100x64"), ONE | {"pp": 64})


def test_heads_that_do_not_divide_are_padded() -> None:
    assert megatron(MODEL, load_cluster("h100x8"), ONE | {"tp": 3}).degrees.tp == 3


def test_a_prompt_in_a_step_of_its_own_does_not_depend_on_how_the_engine_mixes() -> None:
    served = [deployment(msgspec.structs.replace(GENERIC, mixed_prefill=mixed)) for mixed in (False, True)]
    alone, same = (each.prompt_seconds(64) for each in served)
    assert alone == same == served[0].at(64).prefill
    # What it adds to a decode step: the weights are read once for both.
    assert served[1].at(64).prefill < alone
