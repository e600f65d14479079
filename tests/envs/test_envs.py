"""The environments keep to Gymnasium's contract, and score strategies only through the problem."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from fakes import ToyTask
from gymnasium.utils.env_checker import check_env

import lts_bench.envs
from lts_bench.answer import ANSWER
from lts_bench.budget import Budget, BudgetExhausted
from lts_bench.envs.common import rewards, scaled_features
from lts_bench.problem import LocalProblem
from lts_bench.specs.failure import InputError

SEQUENTIAL, ONE_SHOT = "lts_bench:lts/Shard-v0", "lts_bench:lts/ShardOneShot-v0"


def problem(evaluations: int = 1_000) -> LocalProblem:
    return LocalProblem.of(ToyTask(), Budget("test", evaluations, 1.0))


def play(env, rng: np.random.Generator):
    """Play one episode with uniform legal actions; return the last step."""
    observation, info = env.reset()
    while True:
        assert (observation["mask"] == info["action_mask"]).all()
        step = env.step(rng.choice(np.flatnonzero(info["action_mask"])))
        observation, _, over, _, info = step
        if over:
            return step


@pytest.mark.parametrize("env_id", [SEQUENTIAL, ONE_SHOT])
@pytest.mark.parametrize(
    "options",
    [
        {"task": ToyTask()},
        {"task": "llama-3.1-8b/h100x8/chat"},
        {"task": "mixtral-8x7b/a100x16/chat"},
        {"suite": "smoke"},
    ],
    ids=["toy", "dense", "moe", "suite"],
)
def test_environments_pass_gymnasiums_checker(env_id, options):
    check_env(gymnasium.make(env_id, **options).unwrapped)


def test_registering_twice_changes_nothing():
    before = dict(gymnasium.registry)
    lts_bench.envs.register()
    assert dict(gymnasium.registry) == before


def test_an_episode_decides_everything_and_costs_one_evaluation():
    game = problem()
    env = gymnasium.make(SEQUENTIAL, problem=game).unwrapped
    _, reward, over, truncated, info = play(env, np.random.default_rng(0))
    assert over and not truncated
    assert game.meter.used == 1
    answer = ToyTask().evaluate(info["vector"][np.newaxis])[0]
    assert answer["legal"]
    assert all(info[name] == answer[name] for name in ("feasible", "goodput_per_npu", "legal"))
    assert reward == rewards(answer[np.newaxis], 20.0)[0]


def test_rewards_come_at_the_end_only():
    env = gymnasium.make(SEQUENTIAL, problem=problem()).unwrapped
    env.reset()
    length = len(env.problem.space.sizes)
    assert [env.step(0)[1:3] for _ in range(length - 1)] == [(0.0, False)] * (length - 1)
    assert env.problem.meter.used == 0


def test_masked_play_is_always_legal():
    game, rng = problem(), np.random.default_rng(1)
    env = gymnasium.make(SEQUENTIAL, problem=game).unwrapped
    for _ in range(50):
        play(env, rng)
    assert (game.meter.used, game.meter.illegal) == (50, 0)


@pytest.mark.parametrize("degrees", [0, 3, 7])
def test_masks_are_those_of_the_space(degrees):
    game = problem()
    env = gymnasium.make(SEQUENTIAL, problem=game).unwrapped
    observation, _ = env.reset()
    assert observation["mask"].sum() == game.space.sizes[0]
    for position in range(1, len(game.space.sizes)):
        observation, *_ = env.step(degrees if position == 1 else 0)
        assert (observation["mask"] == game.space.mask(degrees)[position]).all()


def test_masks_of_operators_are_narrow_and_full_elsewhere():
    game, count = problem(), 3
    env = gymnasium.make_vec(SEQUENTIAL, num_envs=count, vectorization_mode="vector_entry_point", problem=game)
    widest = int(game.space.sizes[1:].max())
    env.reset()
    assert env.episodes.operator_masks().all()
    for position, column in enumerate(game.space.sample(count, np.random.default_rng(0)).T, start=1):
        env.step(column)
        masks = env.episodes.operator_masks()
        assert masks.shape == (count, widest)
        if position < len(game.space.sizes):
            expected = [game.space.mask(degrees)[position, :widest] for degrees in env.episodes.vectors[:, 0]]
            assert (masks == np.stack(expected)).all()
    assert masks.all()


def test_observations_tell_features_decisions_and_position():
    game = problem()
    env = gymnasium.make(SEQUENTIAL, problem=game).unwrapped
    env.reset()
    observation, *_ = env.step(3)
    features, rest = np.split(observation["obs"], [len(game.features)])
    decided, position = np.split(rest, 2)
    assert (features == scaled_features(game.features)).all()
    assert decided[0] == np.float32(4 / game.space.sizes[0]) and not decided[1:].any()
    assert position.tolist() == [0.0, 1.0] + [0.0] * (len(position) - 2)


def test_what_was_returned_does_not_change():
    env = gymnasium.make(SEQUENTIAL, problem=problem()).unwrapped
    first, info = env.reset()
    before = {name: values.copy() for name, values in first.items()}
    env.step(3)
    assert all((first[name] == before[name]).all() for name in before)
    assert info["action_mask"].dtype == np.int8 and (info["action_mask"] == before["mask"]).all()


def test_the_last_observation_tells_the_whole_strategy_and_no_position():
    env = gymnasium.make(SEQUENTIAL, problem=problem()).unwrapped
    sizes, features = env.problem.space.sizes, len(env.problem.features)
    observation, *_, info = play(env, np.random.default_rng(4))
    decided, position = np.split(observation["obs"][features:], 2)
    assert (decided == ((info["vector"] + 1) / sizes).astype(np.float32)).all()
    assert not position.any()
    assert (observation["mask"] == env.reset()[0]["mask"]).all()


def test_an_action_that_is_no_choice_ends_as_an_illegal_strategy():
    game = problem()
    env = gymnasium.make(SEQUENTIAL, problem=game).unwrapped
    env.reset()
    for _ in game.space.sizes:
        observation, reward, *_ = env.step(int(env.action_space.n) - 1)
        assert observation in env.observation_space
    assert (game.meter.used, game.meter.illegal, reward) == (1, 1, -1.0)


def test_the_spent_budget_ends_the_play():
    env = gymnasium.make(SEQUENTIAL, problem=problem(1)).unwrapped
    rng = np.random.default_rng(0)
    play(env, rng)
    with pytest.raises(BudgetExhausted):
        play(env, rng)


def test_rewards_are_goodput_over_reference_or_the_capped_violation():
    answers = np.zeros(4, dtype=ANSWER)
    answers["feasible"] = [True, False, False, False]
    answers["goodput_per_npu"][0] = 30.0
    answers["violation"][1:] = [[0.5, 0.0, 0.0], [0.25, 0.125, 0.0], [1e3, 1e3, 1e3]]
    expected = [1.5, -np.log(1.5), -(np.log(1.25) + np.log(1.125)), -1.0]
    assert rewards(answers, 20.0) == pytest.approx(expected)


def test_a_given_reference_overrides_the_published_one():
    vector = ToyTask().space.sample(1, np.random.default_rng(3))[0]
    envs = [gymnasium.make(ONE_SHOT, task=ToyTask(), reference=value).unwrapped for value in (None, 40.0)]
    published, given = (env.step(vector)[1] for env in envs)
    assert published > 0
    assert given == published / 2


def test_features_of_any_size_stay_within_the_observation_space():
    features = np.array([0.0, 1.0, -1.0, 9e11, 1e300, -1e300, np.inf])
    scaled = scaled_features(features)
    assert scaled[0] == 0.0
    assert scaled[1] == -scaled[2] == np.float32(np.log10(2) / 10)
    assert scaled[3] == pytest.approx(1.1954, abs=1e-4)
    assert np.abs(scaled).max() <= 4.0


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"task": ToyTask(), "problem": problem()},
        {"task": ToyTask(), "suite": "smoke"},
        {"problem": problem(), "suite": "smoke"},
    ],
)
def test_exactly_one_of_problem_task_and_suite_is_given(arguments):
    with pytest.raises(InputError, match="either problem= or task= or suite="):
        gymnasium.make(SEQUENTIAL, **arguments)


@pytest.mark.parametrize("reference", [0.0, -1.0, float("nan")])
def test_a_reference_that_is_not_positive_is_refused(reference):
    with pytest.raises(InputError, match="must be positive"):
        gymnasium.make(SEQUENTIAL, task=ToyTask(), reference=reference)


@pytest.mark.parametrize("imports", ["gymnasium", "lts_bench, gymnasium", "gymnasium, lts_bench"])
def test_gymnasium_finds_the_environments_in_any_order_of_imports(imports):
    code = f"import {imports}; gymnasium.make('lts_bench:lts/Shard-v0')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, encoding="utf-8")
    assert "give either problem= or task=" in done.stderr


def test_importing_the_package_does_not_import_gymnasium():
    code = "import sys, lts_bench; print('gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, encoding="utf-8")
    assert done.stdout.strip() == "False"
