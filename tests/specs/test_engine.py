from __future__ import annotations

from pathlib import Path

import pytest

from lts_bench.specs.engine import list_engines, load_engine
from lts_bench.specs.failure import InputError

REQUIRED = """
name: mine
step_overhead_us: 0
sequence_overhead_us: 0
small_kernels_per_layer: 6
small_kernels_per_moe_layer: 4
kv_reservation: mean
sliding_window: freed
"""


@pytest.mark.parametrize("name", list_engines())
def test_built_in_profiles_load_under_their_own_name(name: str) -> None:
    assert load_engine(name).name == name


def test_the_engines_of_the_day_are_there() -> None:
    assert list_engines() == ["fastertransformer", "generic", "sglang", "trtllm", "trtllm-cpp", "vllm"]


def test_what_a_profile_leaves_out_has_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(REQUIRED, encoding="utf-8")
    engine = load_engine(str(path))
    assert (engine.memory_fraction, engine.overlap, engine.max_batch, engine.max_prefill_tokens) == (0.9, 0, 2048, 8192)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("max_bach: 64", "max_bach: unknown key; did you mean 'max_batch'?"),
        ("overlap: 1.5", "overlap: must be <= 1"),
        ("memory_fraction: 0", "memory_fraction: must be > 0"),
        ("memory_fraction: 90", "memory_fraction: must be <= 1"),
        ("coordinated_admission: yes", "coordinated_admission: must be true or false"),
        ("expert_imbalance: 0.9", "expert_imbalance: must be >= 1"),
        ("relative_error: {overlap: -1}", "relative_error.overlap: must be >= 0"),
        ("relative_error: {memory_fraction: 1}", "relative_error.memory_fraction: unknown key"),
    ],
)
def test_bad_profiles_are_refused(tmp_path: Path, line: str, told: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(REQUIRED + line, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_engine(path)
    assert told in str(caught.value)


def test_unknown_engines_get_a_hint() -> None:
    with pytest.raises(InputError, match=r"engine: unknown engine; did you mean 'vllm'\?"):
        load_engine("vlm")
