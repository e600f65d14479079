"""Mistakes that cost models of sharding are known for, one test each; those of a single module are tested with it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_settings import space_of

from lts_bench.assess import evaluate_strategy
from lts_bench.cost import evaluator
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.cost.steady import Replica, Round, Rules, rate
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.failure import InputError
from lts_bench.specs.workload import parse_workload

BATCH = "isl=1024,osl=512"


def serve(model: str, cluster: str, workload: str = BATCH, **strategy: Any) -> dict[str, Any]:
    return evaluate_strategy(model=model, cluster=cluster, workload=workload, strategy=strategy)


def test_experts_over_ranks_without_tensor_parallelism_are_legal_and_priced() -> None:
    # "ep needs tp": ep ranks are those of dp · tp, so that tp = 1 leaves ep = dp, and tokens still travel.
    document = serve("mixtral-8x7b", "h100x8", dp=8, tp=1, ep=8)
    time = {row["operator"]: (row["prefill_us"], row["decode_us"]) for row in document["operators"]}
    assert document["strategy"]["etp"] == 1
    assert min(*time["moe.experts.dispatch"], *time["moe.experts.combine"]) > 10  # no exchange takes less


def test_tensor_parallelism_across_nodes_is_slower_than_within_one() -> None:
    # "More tp is always faster": one sequence over two nodes waits for the network.
    alone = "isl=1024,osl=512,tpot_ms=0.001"  # nothing meets this limit: the least violating batch is one sequence
    step = {tp: serve("llama-3.1-70b", "h100x16", alone, tp=tp, replicas=1)["tpot_ms"] for tp in (1, 2, 4, 8, 16)}
    assert step[8] < step[4] < step[2]
    assert step[16] > step[8]


def test_a_small_all_reduce_of_sixteen_is_no_small_all_reduce_of_a_node() -> None:
    # "An all-reduce takes 2.7 µs": over the four trays of a rack 48 to 50 µs are measured.
    document = serve("llama-3.1-8b", "gb200x72", "isl=16,osl=16,tpot_ms=0.001", tp=16, replicas=1)
    reduces = [row["decode_us"] for row in document["collectives"] if row["collective"] == "all-reduce"]
    assert reduces and all(40 < time < 60 for time in reduces)


def test_blocks_that_are_cut_are_illegal_or_padded_and_paid_for() -> None:
    # "2,048 over 32 is 64": a scale covers 128 features, so that a device holds 128 of them or the split is illegal.
    with pytest.raises(InputError, match="BLOCK: etp 32"):
        serve("deepseek-v3", "h200x32", tp=32, ep=1)
    held = [serve("deepseek-v3", "h200x32", tp=tp, ep=1, padding=True)["memory_bytes"]["weights"] for tp in (16, 32)]
    assert held[1] > 0.95 * held[0]


def slower(cluster: Cluster, factor: float) -> Cluster:
    """The cluster with all peaks and memories ``factor`` slower."""
    chip = cluster.chip
    peaks = {kind: peak / factor for kind, peak in chip.peak_flops_per_s.items()}
    chip = msgspec.structs.replace(chip, peak_flops_per_s=peaks, hbm_bytes_per_s=chip.hbm_bytes_per_s / factor)
    return msgspec.structs.replace(cluster, chip=chip)


@pytest.mark.parametrize("workload", [BATCH, f"{BATCH},ttft_ms=2000,tpot_ms=50"])
@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_scores_follow_the_chip_and_not_the_ladder_of_batches(model: str, workload: str) -> None:
    # "A batch is a rung": with rungs of 19 % a chip that is 1 % slower loses nothing or 16 %.
    served, engine = parse_workload(workload), load_engine("generic")
    fast, slow = load_cluster("h100x16"), slower(load_cluster("h100x16"), 1.01)
    raws = []
    for cluster in (fast, slow):
        space, cost = space_of(Setting(load_model(model), cluster, engine, Phases.of(served, engine)))
        raws.append(cost.raw(space.sample(2000, np.random.default_rng(0))))
    before, after = raws
    large = (before[:, evaluator.BATCH] >= 64) & (before[:, evaluator.FEASIBLE] > 0)
    ratio = after[large, evaluator.GOODPUT] / before[large, evaluator.GOODPUT]
    assert large.sum() > 100
    assert (ratio <= 1).all() and ratio.min() > 0.95
    assert np.median(ratio) > 0.985


times = st.floats(1e-3, 1)


@settings(deadline=None)
@given(times, st.floats(0.01, 4), times, times, st.floats(0.1, 5), st.floats(0, 0.3), st.floats(0, 1), st.booleans())
def test_faster_decoding_never_hurts(
    decode: float, waits: float, service: float, more: float, ttft: float, tpot: float, share: float, coordinated: bool
) -> None:
    # "Short rounds queue": prompts wait longer for a faster decoder, so that an engine must be free to slow down.
    limits = Rules(1.0, ttft, tpot, 0.9, float(-np.log(0.1)), coordinated, False)
    one = Replica(8.0, 2.0, 4.0)
    slow, fast = (rate(one, limits, 8.0, Round(td, waits, service, service + more)) for td in (decode, share * decode))
    assert fast >= slow * (1 - 1e-12)
