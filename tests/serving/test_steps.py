"""The steps of a replay's tables, priced together, against the cost model asked for one at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_settings import dense_model, moe_model

from lts_bench.cost.model import cost_of
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import FIRST_RUNG, LONE_PREFILL, PREFILL, Phases
from lts_bench.serving.steps import SHORT, SHORT_PROMPT, WHOLE, Steps
from lts_bench.space.check import check_strategy
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.config import load_model
from lts_bench.specs.engine import load_engine
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload

ROWS, LONGEST = 4, 200


def test_steps_by_hand() -> None:
    steps = Steps.up_to(Workload(100, 20), rows=1, longest=64)
    assert steps.grid.tolist() == [1, 2, 4, 8, 16, 32, 64, 128] and steps.rungs.tolist() == [1, 64]
    prefills = 4 * 8
    # At 128 tokens: one prompt of all ranks, of one; two short ones of all ranks, of one.
    assert steps.prefilled[prefills - 4 : prefills].tolist() == [1, 1, 2, 2]
    assert steps.prompt_tokens[prefills - 4 : prefills].tolist() == [128, 128, 64, 64]
    assert steps.on_one_rank[prefills - 4 : prefills].tolist() == [False, True, False, True]
    assert steps.decoded[prefills - 4 : prefills].tolist() == [0, 0, 0, 0]
    assert steps.decoded[-3:].tolist() == [1, 64, 64] and steps.contexts[-3:].tolist() == [129, 129, 65]
    mixed, alone = steps.beside
    assert steps.tokens[mixed].tolist() == [128] and steps.tokens[alone].tolist() == [64]


@pytest.mark.parametrize(
    ("model", "degrees"),
    [
        (dense_model(), {"tp": 2}),
        (dense_model(), {"pp": 2}),
        (moe_model(), {"dp": 4, "ep": 4}),
        (load_model("gpt-oss-20b"), {"tp": 4}),
        (load_model("qwen3-next-80b-a3b"), {"dp": 8, "ep": 8}),
        (load_model("deepseek-v3"), {"dp": 2, "tp": 4, "ep": 8}),
    ],
)
def test_each_step_is_what_the_cost_model_prices_alone(model: Model, degrees: dict[str, int]) -> None:
    cluster = load_cluster("h100x8")
    given = {"replicas": 1, "pp": 1, "dp": 1, "tp": 1, **degrees}
    strategy = check_strategy(given, model, cluster).strategy
    steps = Steps.up_to(Workload(100, 20), rows=ROWS, longest=LONGEST)
    setting = Setting(model, cluster, load_engine("generic"), steps)

    def seconds(phases: Phases) -> np.ndarray:
        cost, vector = cost_of(replace(setting, phases=phases), strategy)
        return np.array(cost.stage_seconds(vector)[::-1])

    prefills, decodes, mixed = steps.arranged(seconds(steps))
    for point, tokens in enumerate(steps.grid.tolist()):
        alone = seconds(Phases(Workload(tokens, osl=2), steps.rungs, mixed=True))
        assert (prefills[:, WHOLE, :, point] == alone[:, [PREFILL, LONE_PREFILL]]).all()
        assert (decodes[:, :, point] == alone[:, FIRST_RUNG : FIRST_RUNG + len(steps.rungs)]).all()
        if tokens == SHORT_PROMPT:
            assert (mixed == alone[:, -1]).all()
        if tokens > SHORT_PROMPT:
            short = seconds(Phases(Workload(SHORT_PROMPT, osl=2), steps.rungs, prompts=tokens // SHORT_PROMPT))
            assert (prefills[:, SHORT, :, point] == short[:, [PREFILL, LONE_PREFILL]]).all()


def test_prompts_are_in_all_prefills_and_beside_the_rows_of_the_last_step():
    steps = Steps.up_to(Workload(100, 20), rows=ROWS, longest=LONGEST)
    prefills = steps.prompts_of.size
    assert steps.prompting.tolist() == [*range(prefills), len(steps) - 1]
    assert (steps.prefilled[prefills:-1] == 0).all()
