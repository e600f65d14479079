"""Bad input of every kind, through the real command line: one line, exit code 2, no traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
}  # fmt: skip
MOE = LLAMA | {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 1024}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lts_bench", *arguments], capture_output=True, text=True, encoding="utf-8", check=False
    )


def refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    for word in words:
        assert word in lines[0]


def written(path: Path, content: Any) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"hidden_size": 1792, "num_attention_heads": 24, "num_key_value_heads": 24},
            ("hidden_size", "num_attention_heads"),
        ),
        ({"num_experts": 8}, ("num_experts_per_tok",)),
        ({"layer_types": ["full_attention"] * 3}, ("layer_types", "3", "2")),
        ({"dtype": "auto"}, ("dtype", "auto")),
        ({"model_type": None, "hybrid_override_pattern": "MX"}, ("hybrid_override_pattern", "X")),
        ({"num_hidden_layers": None}, ("num_hidden_layers",)),
    ],
)
def test_model_configs(tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...]) -> None:
    refused(run("model", written(tmp_path / "config.json", LLAMA | changes)), *words)


@pytest.mark.parametrize(
    ("model", "strategy", "words"),
    [
        (LLAMA, {"tp": "8"}, ("tp", "'8'")),
        (LLAMA, {"tp": 0}, ("tp", "≥ 1")),
        (LLAMA, {"tp": True}, ("tp", "True")),
        (LLAMA, {"tpp": 8}, ("tpp", "did you mean 'tp'?")),
        (LLAMA, {"tp": 8, "dcp": 8}, ("dcp", "unknown field")),
        (LLAMA, {"sharding": {"dense.attention.qvk": ["R", "N"]}}, ("dense.attention.qvk", "did you mean")),
        (LLAMA, {"sharding": {"dense.ffn.up": ["R", "Q"]}}, ("dense.ffn.up", "M, K, N, R")),
        (LLAMA, [1], ("mapping",)),
        (MOE, {"ep": 2, "moe_ep": 4}, ("ep", "twice")),
        (MOE, {"redundant_experts": -1}, ("redundant_experts", "≥ 0")),
    ],
)
def test_strategies(tmp_path: Path, model: dict[str, Any], strategy: Any, words: tuple[str, ...]) -> None:
    config = written(tmp_path / "config.json", model)
    path = written(tmp_path / "strategy.json", strategy)
    refused(run("check", "--model", config, "--cluster", "h100x8", "--strategy", path), *words)


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("isl=1024,osl=1024,ttft=0.5", ("ttft", "ttft_ms")),
        ("isl=1024,osl=1024,tpot_ms=-1", ("tpot_ms",)),
        ("isl=1024,osl=1024,latency=3", ("latency",)),
        ("isl=1024", ("osl",)),
        ("isl=1024,osl=1024,percentile=100", ("percentile",)),
    ],
)
def test_workloads(tmp_path: Path, workload: str, words: tuple[str, ...]) -> None:
    path = written(tmp_path / "strategy.json", {"tp": 8})
    arguments = ("--model", "llama-3.1-8b", "--cluster", "h100x8", "--strategy", path, "--workload", workload)
    refused(run("evaluate", *arguments), *words)


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        ("h100x12", ("devices", "8, 16")),
        ("h1000x8", ("did you mean 'h100'?",)),
        ("nowhere.yaml", ("nowhere.yaml",)),
    ],
)
def test_clusters(tmp_path: Path, cluster: str, words: tuple[str, ...]) -> None:
    path = written(tmp_path / "strategy.json", {"tp": 8})
    refused(run("check", "--model", "llama-3.1-8b", "--cluster", cluster, "--strategy", path), *words)


@pytest.mark.parametrize(
    "strategy", [{"tp": 3, "pp": 2}, {"tp": 2, "dp": 2, "ep": 8}, {"tp": 1, "dp": 1, "moe_tp": 1, "ep": 8}]
)
def test_rules_broken_by_a_strategy_are_all_told(tmp_path: Path, strategy: dict[str, int]) -> None:
    config = written(tmp_path / "config.json", MOE)
    path = written(tmp_path / "strategy.json", strategy)
    result = run("check", "--model", config, "--cluster", "h100x4", "--strategy", path, "--json")
    assert result.returncode == 1
    document = json.loads(result.stdout)
    assert not document["legal"]
    assert {"DIVISIBILITY", "TOPOLOGY"} >= {violation["class"] for violation in document["violations"]}
    assert all(violation["legal_values"] or violation["rule"] for violation in document["violations"])


def test_both_products_of_expert_folding_are_told(tmp_path: Path) -> None:
    config = written(tmp_path / "config.json", MOE)
    path = written(tmp_path / "strategy.json", {"tp": 1, "dp": 1, "moe_tp": 1, "ep": 8})
    result = run("check", "--model", config, "--cluster", "h100x8", "--strategy", path)
    assert result.returncode == 1
    assert "ep·etp = 8·1 = 8, dp·tp = 1" in result.stdout


def test_a_suite_with_an_unknown_key_leaves_no_results(tmp_path: Path) -> None:
    suite = written(tmp_path / "mine.yaml", "name: mine\nagent: [random]\n")
    refused(
        run("run", "--suite", suite, "--out", str(tmp_path / "runs")), "mine.yaml", "agent", "did you mean 'agents'?"
    )
    assert not (tmp_path / "runs").exists()
