from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lts_bench.specs.chip import Fitted
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.engine import Engine, EngineErrors, load_engine
from lts_bench.specs.perturbation import draws, perturbed
from lts_bench.specs.topology import LinkErrors

NAMES = ("h100x16", "gb200x144", "mi300x-16", "tpu-v5e-4x4", "l40s-8", "h100-dragonfly-128")
CLUSTERS = {name: load_cluster(name) for name in NAMES}
ENGINE = msgspec.structs.replace(load_engine("trtllm-cpp"), overlap=0.3)


def certain(value: Any) -> Any:
    """The same specs with errors of 0."""
    if isinstance(value, LinkErrors | EngineErrors):
        return type(value)(**dict.fromkeys(value.__struct_fields__, 0.0))
    if isinstance(value, msgspec.Struct):
        fields = {name: certain(getattr(value, name)) for name in value.__struct_fields__}
        if isinstance(value, Fitted):
            fields["relative_error"] = 0.0
        return msgspec.structs.replace(value, **fields)
    return {key: certain(each) for key, each in value.items()} if isinstance(value, dict) else value


def certain_cluster(cluster: Cluster) -> Cluster:
    replace = msgspec.structs.replace
    known = certain(cluster)
    kernels = replace(known.chip.kernels, small_kernel_relative_error=0.0)
    collectives = replace(known.collectives, relative_error=dict.fromkeys(cluster.collectives.relative_error, 0.0))
    return replace(known, chip=replace(known.chip, kernels=kernels), collectives=collectives)


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a spec with its path."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from numbers(each, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from numbers(each, f"{path}.{index}")
    elif isinstance(value, float | int) and not isinstance(value, bool):
        yield path, float(value)


def flat(spec: Cluster | Engine) -> dict[str, float]:
    return dict(numbers(msgspec.to_builtins(spec)))


@pytest.mark.parametrize("name", NAMES)
def test_errors_of_zero_change_nothing(name: str) -> None:
    cluster, engine = certain_cluster(CLUSTERS[name]), certain(ENGINE)
    assert perturbed(cluster, engine, np.random.default_rng(1)) == (cluster, engine)


def test_one_seed_one_draw() -> None:
    first, again = (list(draws(CLUSTERS["h100x16"], ENGINE, count, 7)) for count in (2, 3))
    assert first == again[:2] and first[0] != first[1]
    assert first[0] != next(draws(CLUSTERS["h100x16"], ENGINE, 1, 8))


def test_an_error_changes_no_other_draw() -> None:
    cluster = CLUSTERS["h100x16"]
    kernels = msgspec.structs.replace(cluster.chip.kernels, small_kernel_relative_error=0.0)
    other = msgspec.structs.replace(cluster, chip=msgspec.structs.replace(cluster.chip, kernels=kernels))
    one, two = (flat(perturbed(each, ENGINE, np.random.default_rng(3))[0]) for each in (cluster, other))
    unlike = {path for path in one if one[path] != two[path]}
    assert unlike == {".chip.kernels.small_kernel_us", ".chip.kernels.small_kernel_relative_error"}


PRINTED = (".devices", "peak_flops_per_s", ".cores", "hbm_bytes", "scale_up", ".scale_out.bytes_per_s", "power_w")
KEPT = ("relative_error", "roll_off", "tail", "growth", "slowdown", ".sms", "oversubscription", "block_devices")


@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_what_is_printed_stays_and_shares_stay_shares(name: str, seed: int) -> None:
    cluster, engine = perturbed(CLUSTERS[name], ENGINE, np.random.default_rng(seed))
    before, after = flat(CLUSTERS[name]), flat(cluster)
    for path, value in after.items():
        if any(word in path for word in (*PRINTED, *KEPT)):
            assert value == before[path], path
        elif "efficiency" in path:
            assert 0 < value <= 1, path
        elif path.endswith("passes"):
            assert value >= min(before[path], 1), path
        else:
            assert value >= 0, path
    assert 0 <= engine.overlap <= 1 <= engine.expert_imbalance


def test_a_kernel_is_so_much_slower_in_all_its_parts() -> None:
    before = CLUSTERS["h100x16"].chip.kernels.latent_decode
    after = perturbed(CLUSTERS["h100x16"], ENGINE, np.random.default_rng(11))[0].chip.kernels.latent_decode
    factor = after.floor_us / before.floor_us
    assert factor > 1
    assert after.split_us / before.split_us == pytest.approx(factor)
    assert after.passes / before.passes == pytest.approx(factor)
    assert before.memory_efficiency / after.memory_efficiency == pytest.approx(factor)


def test_factors_are_log_normal_about_the_documented_error() -> None:
    cluster = CLUSTERS["mi300x-16"]
    error, floor = cluster.chip.kernels.gemm["bf16"].relative_error, cluster.chip.kernels.gemm["bf16"].floor_us
    logs = np.log([each.chip.kernels.gemm["bf16"].floor_us / floor for each, _ in draws(cluster, ENGINE, 400, 0)])
    assert abs(logs.mean()) < 3 * error / 20  # standard error of 400 draws
    assert logs.std() == pytest.approx(error, rel=0.15)


def test_excess_imbalance_and_exposed_share_are_drawn() -> None:
    plain = msgspec.structs.replace(ENGINE, overlap=0.0, expert_imbalance=1.0)
    engines = [engine for _, engine in draws(CLUSTERS["h100x16"], plain, 50, 0)]
    assert {engine.expert_imbalance for engine in engines} == {1.0}
    hidden = [engine.overlap for engine in engines]
    assert min(hidden) == 0 < max(hidden) < 0.5
