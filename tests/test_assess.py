from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lts_bench.assess import (
    assess,
    check_document,
    evaluate_strategy,
    ranking_under_uncertainty,
    spread,
    violations_of,
)
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.space.check import check_strategy
from lts_bench.space.strategy import Strategy
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.failure import Failure, InputError
from lts_bench.specs.workload import parse_workload
from lts_bench.task import make_task

GIB = 2**30
SHORT = "isl=1024,osl=512,ttft_ms=2000,tpot_ms=50"


def device_cluster(folder: Path, hbm_bytes: float, devices: int = 1) -> str:
    """A cluster of H100 with another memory, as a user would write it."""
    text = Path(load_cluster.__code__.co_filename).parents[1] / "data"
    chip = (text / "chips/h100.yaml").read_text(encoding="utf-8").splitlines()
    lines = [line for line in chip if not line.startswith(("hbm_bytes_usable", "hbm_bytes:", "name:"))]
    (folder / "chip.yaml").write_text("\n".join([*lines, "name: mine", f"hbm_bytes: {hbm_bytes}"]), encoding="utf-8")
    family = (text / "clusters/h100.yaml").read_text(encoding="utf-8").splitlines()
    lines = [line for line in family if not line.startswith(("family:", "chip:"))]
    path = folder / "cluster.yaml"
    path.write_text("\n".join([*lines, "chip: chip.yaml", f"devices: {devices}"]), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("hbm_bytes", "longest"), [(24 * GIB, 54_415), (24e9, 42_262)])
def test_how_long_a_sequence_may_get_is_told(tmp_path: Path, hbm_bytes: float, longest: int) -> None:
    # 131,072 tokens x 131,072 B = 16 GiB; 0.9 x capacity less 2 x 8,030,261,248 B of weights is what is left
    cluster = device_cluster(tmp_path, hbm_bytes)
    document = evaluate_strategy(model="llama-3.1-8b", cluster=cluster, workload="isl=131071,osl=1", strategy={"tp": 1})
    memory = document["memory_bytes"]
    assert (memory["kv_per_sequence"], memory["weights"]) == (16 * GIB, 2 * 8_030_261_248)
    assert memory["longest_sequence_tokens"] == longest
    assert (document["feasible"], document["ttft_ms"], document["tpot_ms"]) == (False, None, None)
    assert f"{longest:,}" in document["violations"][0]["message"]


def test_decimal_and_binary_gigabytes_leave_other_room(tmp_path: Path) -> None:
    rooms = []
    for hbm_bytes in (80e9, 80 * GIB):
        cluster = device_cluster(tmp_path, hbm_bytes, devices=2)
        document = evaluate_strategy(model="llama-3.1-70b", cluster=cluster, workload=SHORT, strategy={"tp": 2})
        memory = document["memory_bytes"]
        rooms.append(memory["limit"] - memory["weights"])
    # 0.9 x 80e9 - 70.554e9 and 0.9 x 85.9e9 - 70.554e9; norms are on both devices
    assert rooms == pytest.approx([1.446e9, 6.756e9], abs=0.003e9)


def test_what_does_not_fit_is_a_matter_of_memory() -> None:
    model, cluster = load_model("llama-3.1-405b"), load_cluster("h100x1")
    document = check_document(model, cluster, {"tp": 1}, parse_workload(SHORT))
    assert document["legal"]
    assert [violation["class"] for violation in document["violations"]] == ["MEMORY"]
    assert "811.7" in document["violations"][0]["message"]


def test_405b_fits_sixteen_devices() -> None:
    model, cluster = load_model("llama-3.1-405b"), load_cluster("h100x16")
    strategy = check_strategy({"tp": 8, "pp": 2}, model, cluster).strategy
    assessment = assess(model, cluster, load_engine("generic"), parse_workload("isl=64,osl=64"), strategy)
    assert assessment.memory["weights"] == pytest.approx(50.73e9, rel=1e-3)
    assert assessment.feasible


def test_slo_violations_are_told_apart() -> None:
    model, cluster = load_model("llama-3.1-70b"), load_cluster("h100x8")
    strategy = check_strategy({"tp": 8}, model, cluster).strategy
    workload = parse_workload("isl=1024,osl=512,ttft_ms=1,tpot_ms=1")
    found = violations_of(assess(model, cluster, load_engine("generic"), workload, strategy))
    assert [violation.failure for violation in found] == [Failure.SLO, Failure.SLO]
    assert [violation.field for violation in found] == ["slo.ttft_ms", "slo.tpot_ms"]


def test_an_illegal_strategy_is_refused_with_every_rule() -> None:
    with pytest.raises(InputError) as caught:
        evaluate_strategy(model="qwen2.5-72b", cluster="h100x8", workload=SHORT, strategy={"tp": 5})
    told = str(caught.value)
    assert "\n" not in told
    assert all(word in told for word in ("num_attention_heads 64", "num_key_value_heads 8", "intermediate_size 29568"))


def test_a_strategy_scores_the_same_on_its_own_and_in_its_task() -> None:
    task = make_task(model="mixtral-8x7b", cluster="h100x16", workload=SHORT)
    import numpy as np

    vectors = task.space.sample(40, np.random.default_rng(5))
    answers = task.evaluate(vectors)
    for vector, answer in zip(vectors, answers, strict=True):
        document = json.loads(json.dumps(task.space.decode(vector).to_json()))
        alone = evaluate_strategy(model="mixtral-8x7b", cluster="h100x16", workload=SHORT, strategy=document)
        assert alone["goodput_per_npu"] == pytest.approx(float(answer["goodput_per_npu"]), rel=1e-12)
        assert alone["feasible"] == bool(answer["feasible"])


def test_the_breakdown_adds_up_to_the_step() -> None:
    document: dict[str, Any] = evaluate_strategy(
        model="llama-3.1-8b", cluster="h100x8", workload="isl=1024,osl=100000", strategy={"replicas": 1, "tp": 8}
    )
    rows = document["operators"] + document["collectives"]
    step_us = sum(row["count"] * row["decode_us"] for row in rows) + 1000 + 2 * document["batch"]
    prompt_us = sum(row["count"] * row["prefill_us"] for row in rows) + 1002
    expected_ms = (step_us + document["batch"] / 100_000 * prompt_us) / 1e3
    assert document["tpot_ms"] == pytest.approx(expected_ms, rel=5e-3)


def test_idle_devices_warn_and_never_raise_the_score() -> None:
    whole = evaluate_strategy(model="llama-3.1-8b", cluster="h100x8", workload=SHORT, strategy={"tp": 1})
    half = evaluate_strategy(model="llama-3.1-8b", cluster="h100x8", workload=SHORT, strategy={"tp": 1, "replicas": 4})
    assert "4 of 8 devices are used" in half["warnings"][0]
    assert half["goodput_per_npu"] == pytest.approx(whole["goodput_per_npu"] / 2)


def test_padding_is_opt_in_and_charged() -> None:
    with pytest.raises(InputError, match="not legal"):
        evaluate_strategy(model="llama-3.1-8b", cluster="h100x8", workload=SHORT, strategy={"tp": 5})
    padded = {"tp": 5, "replicas": 1, "padding": True}
    wide = evaluate_strategy(model="llama-3.1-8b", cluster="h100x8", workload=SHORT, strategy=padded)
    plain = evaluate_strategy(model="llama-3.1-8b", cluster="h100x8", workload=SHORT, strategy={"tp": 4, "replicas": 1})
    assert wide["memory_bytes"]["weights"] > plain["memory_bytes"]["weights"] * 4 / 5


def test_fractions_of_all_and_of_free_memory_are_two_options() -> None:
    total = evaluate_strategy(
        model="llama-3.1-8b", cluster="h100x1", workload="isl=1000,osl=1000,memory_fraction=0.8", strategy={"tp": 1}
    )
    free = evaluate_strategy(
        model="llama-3.1-8b",
        cluster="h100x1",
        workload="isl=1000,osl=1000,free_memory_fraction=0.8",
        strategy={"tp": 1},
    )
    memory = total["memory_bytes"]
    # 85.5e9 B usable, 131,072 B a token, 1,500 tokens a sequence in the mean
    left = 85.5e9 - memory["weights"] - memory["buffers"]
    assert total["batch"] == int((0.8 * 85.5e9 - memory["weights"] - memory["buffers"]) / (131_072 * 1500))
    assert free["batch"] == int(0.8 * left / (131_072 * 1500))
    with pytest.raises(InputError, match="excludes memory_fraction"):
        parse_workload("isl=1,osl=1,memory_fraction=0.9,free_memory_fraction=0.9")


def slow_cluster(folder: Path) -> str:
    """Four devices with links of 16 GB/s."""
    text = (Path(load_cluster.__code__.co_filename).parents[1] / "data/clusters/h100.yaml").read_text(encoding="utf-8")
    text = text.replace("  bytes_per_s: 450e9", "  bytes_per_s: 16e9").replace(
        "chip: h100\n", "chip: a100\ndevices: 4\n"
    )
    path = folder / "slow.yaml"
    path.write_text(text.replace("family: h100\n", ""), encoding="utf-8")
    return str(path)


def test_more_tensor_parallelism_is_not_always_faster(tmp_path: Path) -> None:
    def serve(**strategy: int) -> dict[str, Any]:
        cluster = slow_cluster(tmp_path)
        return evaluate_strategy(model="llama-2-7b", cluster=cluster, workload="isl=1024,osl=256", strategy=strategy)

    copies, split, stages = serve(tp=1), serve(tp=4), serve(pp=4)
    assert copies["strategy"]["replicas"] == 4
    assert copies["throughput_tokens_per_s"] > split["throughput_tokens_per_s"]
    moving = sum(row["count"] * row["decode_us"] for row in split["collectives"])
    working = sum(row["count"] * row["decode_us"] for row in split["operators"])
    assert moving / (moving + working) > 0.25
    prompt = {
        name: sum(row["count"] * row["prefill_us"] for row in document["operators"])
        for name, document in (("tp1", copies), ("pp4", stages))
    }
    assert prompt["pp4"] == pytest.approx(prompt["tp1"])  # a pipeline does not shorten one prompt


def setting(model: str, cluster: str, workload: str = SHORT) -> Setting:
    place, engine, served = load_cluster(cluster), load_engine("generic"), parse_workload(workload)
    return Setting(load_model(model), place, engine, Phases.of(served, engine))


def strategy(place: Setting, **document: Any) -> Strategy:
    return check_strategy(document, place.model, place.cluster).strategy


def test_an_interval_holds_the_nominal_value_and_widens_with_the_errors() -> None:
    relative = {}
    for cluster in ("h100x8", "mi300x-8"):  # fitted to measurements; known from its datasheet alone
        document = evaluate_strategy(
            model="llama-3.1-8b", cluster=cluster, workload=SHORT, strategy={"tp": 2}, uncertainty=32
        )
        found = document["uncertainty"]
        assert (found["draws"], found["feasible_share"]) == (32, 1.0)
        for name in ("goodput_per_npu", "throughput_tokens_per_s", "ttft_ms", "tpot_ms", "batch"):
            assert found[name]["p5"] <= found[name]["median"] <= found[name]["p95"]
            assert found[name]["p5"] <= document[name] <= found[name]["p95"]
        goodput = found["goodput_per_npu"]
        relative[cluster] = (goodput["p95"] - goodput["p5"]) / goodput["median"]
    assert 0.02 < relative["h100x8"] < relative["mi300x-8"] < 1


def test_a_spread_is_that_of_its_seed_and_no_part_of_an_evaluation_unless_asked() -> None:
    place = setting("llama-3.1-8b", "h100x8")
    chosen = strategy(place, tp=2)
    assert spread(place, chosen, 4) == spread(place, chosen, 4, seed=0) != spread(place, chosen, 4, seed=1)
    document = evaluate_strategy(model="llama-3.1-8b", cluster="h100x8", workload=SHORT, strategy={"tp": 2})
    assert "uncertainty" not in document


def test_a_limit_near_by_is_met_in_a_share_of_the_draws() -> None:
    place = setting("llama-3.1-8b", "h100x8", "isl=1024,osl=512")
    nominal = evaluate_strategy(
        model="llama-3.1-8b", cluster="h100x8", workload="isl=1024,osl=512,tpot_ms=1", strategy={"tp": 8}
    )
    assert not nominal["feasible"]
    tight = setting("llama-3.1-8b", "h100x8", f"isl=1024,osl=512,tpot_ms={nominal['tpot_ms']}")
    found = spread(tight, strategy(place, tp=8), 32)
    assert 0.1 < found["feasible_share"] < 0.9
    assert found["goodput_per_npu"]["p5"] == 0 < found["throughput_tokens_per_s"]["p5"]


def test_what_does_not_fit_has_no_interval() -> None:
    document = evaluate_strategy(
        model="llama-3.1-405b", cluster="h100x8", workload=SHORT, strategy={"tp": 8}, uncertainty=2
    )
    assert document["mfu"] is None
    assert document["uncertainty"]["feasible_share"] == 0
    assert document["uncertainty"]["goodput_per_npu"] == {"median": 0.0, "p5": 0.0, "p95": 0.0}
    assert document["uncertainty"]["tpot_ms"] == {"median": None, "p5": None, "p95": None}


def test_how_often_a_strategy_wins() -> None:
    place = setting("llama-3.1-8b", "h100x8")
    one, two, eight = (strategy(place, tp=tp) for tp in (1, 2, 8))
    assert ranking_under_uncertainty(place, [one, one, eight], 4) == [0.5, 0.5, 0]
    near = ranking_under_uncertainty(place, [one, two], 16)
    assert sum(near) == 1
    impossible = setting("llama-3.1-8b", "h100x8", "isl=1024,osl=512,tpot_ms=0.1")
    assert ranking_under_uncertainty(impossible, [one, two], 2) == [0, 0]


def test_utilisation_is_reported() -> None:
    document = evaluate_strategy(model="llama-3.1-8b", cluster="h100x8", workload=SHORT, strategy={"tp": 1})
    prompt_s = sum(row["count"] * row["prefill_us"] for row in document["operators"]) / 1e6
    # 6.98e9 parameters of layers for 1,024 tokens, 0.53e9 of the head for one
    flops = 2 * (1024 * (8_030_261_248 - 2 * 525_336_576 - 266_240) + 525_336_576)
    assert document["mfu"]["prefill"] == pytest.approx(flops / prompt_s / 989e12, rel=0.01)
    assert 0 < document["mfu"]["decode"] < document["mfu"]["prefill"] < 1
