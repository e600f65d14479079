from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_settings import cost_model, degrees, dense_model, latent_model, moe_model, setting, strategy, vector

from lts_bench.cost import utilisation as module
from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import PREFILL, Phases
from lts_bench.cost.utilisation import RooflineError, product_seconds, utilisation
from lts_bench.space.decisions import Space
from lts_bench.space.strategy import Degrees
from lts_bench.specs.chip import load_chip
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.failure import InputError
from lts_bench.specs.formats import Precision
from lts_bench.specs.model import Model
from lts_bench.specs.perturbation import perturbed
from lts_bench.specs.quantization import FORMATS, apply_precision
from lts_bench.specs.workload import Workload

H100 = load_chip("h100")
SMALL = (dense_model(), dense_model(heads=16, kv_heads=2, vocab=128_000), moe_model(16), latent_model())
LARGE = tuple(load_model(name) for name in ("llama-3.1-8b", "mixtral-8x7b"))
CLUSTERS = ("h100x16", "b200x8", "gb200x8", "mi300x-8", "tpu-v5e-4x4", "gaudi3-8", "l40s-8", "trainium2-16")


def test_products_of_a_dense_model() -> None:
    model = load_model("llama-3.1-8b")
    layers, head = product_seconds(model, H100)
    # 8,030,261,248 parameters: 525,336,576 embedding, as many head, 266,240 norms
    assert layers == pytest.approx(2 * (8_030_261_248 - 2 * 525_336_576 - 266_240) / 989e12)
    assert head == pytest.approx(2 * 525_336_576 / 989e12)


def test_each_product_counts_at_the_peak_of_its_type() -> None:
    model = apply_precision(load_model("llama-3.1-8b"), "fp8")
    (layers, head), (whole, same) = product_seconds(model, H100), product_seconds(load_model("llama-3.1-8b"), H100)
    assert layers == pytest.approx(whole * 989 / 1979) and head == same  # the head stays in 16 bit


def test_of_experts_those_that_a_token_uses() -> None:
    model = moe_model(8)
    layers, _ = product_seconds(model, H100)
    attention, dense = 512 * 16 * 64 + 512 * 512, 3 * 512 * 1024
    moe = 512 * 8 + 3 * 512 * 256 * (2 + 1)  # router, two experts and the shared one
    assert layers == pytest.approx(2 * (3 * attention + dense + 2 * moe) / 989e12)


def at_batch(place: CostModel, batch: int) -> CostModel:
    phases = Phases(place.setting.phases.workload, np.array([batch]))
    return CostModel(replace(place.setting, phases=phases), place.tables.degrees)


def test_by_hand() -> None:
    model = dense_model()
    d = degrees(pp=2, tp=2)
    cost = at_batch(cost_model(setting(model), d), 8)
    chosen = vector(model, cost, strategy(model, d))[0]
    total, heaviest = cost.stage_seconds(chosen)
    layers, head = product_seconds(model, H100)
    found = utilisation(cost, chosen)
    # two stages of two devices finish a prompt of 256 tokens in the time of the heavier one
    assert found["prefill"] == pytest.approx((256 * layers + head) / (4 * heaviest[PREFILL]))
    # 2 · 8 sequences get a token in a round
    assert found["decode"] == pytest.approx(16 * (layers + head) / (4 * max(2 * heaviest[2], total[2])))


def test_faster_than_the_peak_is_a_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    model, d = dense_model(), degrees()
    cost = at_batch(cost_model(setting(model), d), 8)
    monkeypatch.setattr(module, "product_seconds", lambda model, chip: (1.0, 1.0))
    with pytest.raises(RooflineError, match=r"prefill reaches .* of the peak: tiny as replicas=1"):
        utilisation(cost, vector(model, cost, strategy(model, d))[0])
    assert not issubclass(RooflineError, InputError)


@settings(deadline=None, max_examples=60)
@given(
    model=st.sampled_from((*SMALL, *LARGE)),
    precision=st.sampled_from(("bf16", "fp8", "int8", "int4")),
    cluster=st.sampled_from(CLUSTERS),
    workload=st.tuples(st.sampled_from((1, 100, 2048, 16_384)), st.sampled_from((2, 512))),
    batch=st.sampled_from((1, 7, 64, 2048)),
    overlap=st.sampled_from((0.0, 1.0)),
    seed=st.integers(0, 2**32),
)
def test_no_strategy_beats_the_peak_on_any_draw(
    model: Model, precision: str, cluster: str, workload: tuple[int, int], batch: int, overlap: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    stored = replace(model, precision=Precision(FORMATS[precision]))
    overlapping = msgspec.structs.replace(load_engine("generic"), overlap=overlap)
    place, engine = perturbed(load_cluster(cluster), overlapping, rng)
    space = Space.build(stored, place)
    chosen = space.sample(1, rng)[0]
    served = Setting(stored, place, engine, Phases(Workload(*workload), np.array([batch])))
    cost = CostModel(served, [Degrees(*map(int, space.degrees[chosen[0]]))])
    found = utilisation(cost, np.array([0, *chosen[1:]]))
    assert all(0 < share <= 1 for share in found.values())
