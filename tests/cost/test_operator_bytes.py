"""What a device holds and does of every kind of operator, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from test_nodes import Priced
from tiny_settings import degrees, latent_model, moe_model, setting

from lts_bench.cost.phases import FIRST_RUNG
from lts_bench.specs.formats import Precision
from lts_bench.specs.layers import Attention, DenseFfn, Layer, LinearMixer, Mixer
from lts_bench.specs.model import Model
from lts_bench.specs.quantization import FORMATS


def only(mixer: Mixer, hidden: int = 512) -> Model:
    return Model("only", hidden, 1000, (Layer(mixer, DenseFfn(1024)),))


MHA, MQA, LINEAR = (only(m) for m in (Attention(8, 8, 64), Attention(8, 1, 64), LinearMixer(8, 1024, 512, 65_536)))
LATENT, MOE = latent_model(), moe_model()


@pytest.mark.parametrize(
    ("model", "name", "letters", "n", "k"),
    [
        (MHA, "attention.qkv", "N", 3 * 64, 512),
        (MHA, "attention.qkv", "K", 3 * 512, 64),
        (MHA, "attention.out", "K", 512, 64),
        (MQA, "attention.qkv", "N", 64 + 2 * 64, 512),  # the one KV head on every device
        (MQA, "attention.qkv", "K", 8 * 64 + 2 * 64, 64),
        (LINEAR, "attention.qkv", "N", 128, 512),
        (LINEAR, "attention.out", "K", 512, 64),
        (LATENT, "attention.q_down", "N", 8, 512),
        (LATENT, "attention.q_down", "R", 64, 512),
        (LATENT, "attention.q_up", "N", 24, 64),
        (LATENT, "attention.q_up", "K", 8 * 24, 8),
        (LATENT, "attention.kv_down", "N", 5, 512),
        (LATENT, "attention.kv_down", "K", 40, 64),
        (LATENT, "attention.kv_up", "N", 16 + 16, 32),
        (LATENT, "attention.kv_up", "K", 8 * (16 + 16), 4),
        (LATENT, "attention.out", "K", 512, 16),
        (MOE, "router", "M", 8, 512),
        (MOE, "shared.up", "N", 2 * 32, 512),
        (MOE, "shared.up", "K", 2 * 256, 64),
        (MOE, "shared.down", "K", 512, 32),
        (MOE, "shared.down", "N", 64, 256),
    ],
)
def test_weights_of_one_of_eight_devices(model: Model, name: str, letters: str, n: int, k: int) -> None:
    vectors = model.layers[-1].operators(model.hidden)[name].vectors
    assert Priced(setting(model), degrees(tp=8)).weights(name, letters) == 2 * (n * k + vectors)


@pytest.mark.parametrize(
    ("name", "bytes_of_weight"),
    [("bf16", 2.0), ("fp8_block", 1 + 4 / 128**2), ("fp4", 0.5 + 1 / 16)],
)
def test_quantised_weights(name: str, bytes_of_weight: float) -> None:
    layer = Layer(Attention(8, 8, 128), DenseFfn(2048))
    model = Model("quantised", 1024, 1000, (layer,), precision=Precision(FORMATS[name]))
    priced = Priced(setting(model), degrees(tp=4))
    assert priced.weights("ffn.up", "N") == pytest.approx(2 * 512 * 1024 * bytes_of_weight)
    assert priced.weights("ffn.down", "K") == pytest.approx(512 * 1024 * bytes_of_weight)
    assert priced.weights("attention.qkv", "N") == pytest.approx(3 * 256 * 1024 * bytes_of_weight)


def decode(model: Model, workload: str, letters: str = "R") -> np.ndarray:
    time, _ = Priced(setting(model, workload=workload), degrees(tp=8)).node("attention.core", letters)
    return time[FIRST_RUNG:]


@pytest.mark.parametrize("letters", ["R", "heads", "batch"])
def test_a_window_reads_what_it_sees(letters: str) -> None:
    full = only(Attention(8, 4, 64))
    windowed = only(Attention(8, 4, 64, window=128))
    assert decode(windowed, "isl=8192,osl=96", letters) == pytest.approx(decode(full, "isl=100,osl=56", letters))
    assert decode(windowed, "isl=32,osl=32", letters) == pytest.approx(decode(full, "isl=32,osl=32", letters))


def test_a_recurrence_does_not_slow_down_with_the_context() -> None:
    assert decode(LINEAR, "isl=16,osl=16") == pytest.approx(decode(LINEAR, "isl=9999,osl=16"))
    assert (decode(LINEAR, "isl=16,osl=16", "heads") < decode(LINEAR, "isl=16,osl=16")).all()
