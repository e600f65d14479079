"""Vector environments: the episodes are those of single ones, scored together."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from fakes import ToyTask
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from lts_bench.answer import ANSWER
from lts_bench.budget import Budget
from lts_bench.envs import sample_choices
from lts_bench.problem import LocalProblem
from lts_bench.specs.failure import InputError

SEQUENTIAL, ONE_SHOT = "lts_bench:lts/Shard-v0", "lts_bench:lts/ShardOneShot-v0"
SHELLS = pytest.mark.parametrize("env_id", [SEQUENTIAL, ONE_SHOT])
DENSE, MOE = "llama-3.1-8b/h100x8/chat", "mixtral-8x7b/a100x16/chat"


def problem(evaluations: int = 1_000) -> LocalProblem:
    return LocalProblem.of(ToyTask(), Budget("test", evaluations, 1.0))


def make(env_id: str, num_envs: int, **options):
    return gymnasium.make_vec(env_id, num_envs=num_envs, vectorization_mode="vector_entry_point", **options)


def plain(env_id: str, num_envs: int, **options) -> SyncVectorEnv:
    """Single environments, side by side as Gymnasium does it."""
    return SyncVectorEnv([lambda: gymnasium.make(env_id, **options)] * num_envs, autoreset_mode=AutoresetMode.DISABLED)


def actions_of(env, observations, rng: np.random.Generator) -> np.ndarray:
    """Random actions that the masks admit."""
    masks = observations["mask"]
    if isinstance(env.single_action_space, gymnasium.spaces.Discrete):
        return sample_choices(masks, rng)
    parts = np.split(masks, np.cumsum(env.single_action_space.nvec)[:-1], axis=1)
    return np.stack([sample_choices(np.ascontiguousarray(part), rng) for part in parts], axis=1)


def assert_same(ours, theirs) -> None:
    """Compare what two calls returned; of the infos, what they say is there."""
    (observations, *rest, infos), (expected, *expected_rest, expected_infos) = ours, theirs
    assert observations.keys() == expected.keys() and infos.keys() == expected_infos.keys()
    pairs = [*zip(rest, expected_rest, strict=True), *((observations[name], expected[name]) for name in expected)]
    for name in (name for name in infos if f"_{name}" in infos):
        there = infos[f"_{name}"]
        pairs += [(there, expected_infos[f"_{name}"]), (infos[name][there], expected_infos[name][there])]
    for mine, other in pairs:
        assert (mine.dtype, mine.tolist()) == (other.dtype, other.tolist())


@SHELLS
@pytest.mark.parametrize("options", [{"task": DENSE}, {"task": MOE}, {"suite": "smoke"}], ids=["dense", "moe", "suite"])
def test_episodes_equal_single_ones_step_by_step(env_id, options):
    ours, theirs, rng = make(env_id, 5, **options), plain(env_id, 5, **options), np.random.default_rng(0)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    began, expected = ours.reset(seed=3), theirs.reset(seed=3)
    assert_same(began, expected)
    for _ in range(40):
        actions = actions_of(ours, began[0], rng)
        stepped, expected = ours.step(actions), theirs.step(actions)
        assert_same(stepped, expected)
        assert stepped[0] in ours.observation_space
        began = stepped
        if stepped[2].any():
            began = ours.reset(options={"reset_mask": stepped[2]})
            assert_same(began, theirs.reset(options={"reset_mask": stepped[2].copy()}))


@SHELLS
def test_the_same_seed_gives_the_same_bits(env_id):
    def run() -> list[bytes]:
        env, rng, seen = make(env_id, 4, suite="smoke"), np.random.default_rng(1), []
        observations, _ = env.reset(seed=7)
        for _ in range(12):
            observations, earned, over, _, infos = env.step(actions_of(env, observations, rng))
            seen += [observations["obs"].tobytes(), earned.tobytes(), "".join(infos["task"]).encode()]
            if over.any():
                observations, _ = env.reset(options={"reset_mask": over})
        return seen

    assert run() == run()


@SHELLS
def test_spaces_hold_samples_and_reset_observations(env_id):
    env = make(env_id, 3, task=ToyTask())
    observations, infos = env.reset(seed=0)
    assert observations in env.observation_space
    assert env.action_space.sample() in env.action_space
    assert infos["action_mask"].dtype == np.int8 and infos["_action_mask"].all()


def test_infos_hold_the_answers_of_the_episodes_that_ended():
    batch, vectors = make(SEQUENTIAL, 3, problem=problem()), ToyTask().space.sample(3, np.random.default_rng(0))
    batch.reset()
    batch.step(vectors[:, 0])
    batch.reset(options={"reset_mask": np.array([True, False, False])})
    for position in range(1, vectors.shape[1]):
        late = np.array([vectors[0, position - 1], *vectors[1:, position]])
        *_, infos = batch.step(late)
    answers = ToyTask().evaluate(vectors)
    assert infos["_vector"].tolist() == [False, True, True]
    assert (infos["vector"][1:] == vectors[1:]).all() and not infos["vector"][0].any()
    for name in ANSWER.names or ():
        assert (infos[name][1:] == answers[name][1:]).all() and not np.any(infos[name][0])
        assert infos[f"_{name}"].tolist() == [False, True, True]


@SHELLS
def test_episodes_are_scored_in_one_call(env_id):
    task, calls = ToyTask(), []

    class Counting(ToyTask):
        def evaluate(self, vectors):
            calls.append(len(vectors))
            return task.evaluate(vectors)

    batch, rng = make(env_id, 7, task=Counting()), np.random.default_rng(0)
    observations, _ = batch.reset()
    over = np.zeros(7, dtype=np.bool_)
    while not over.all():
        observations, _, over, _, _ = batch.step(actions_of(batch, observations, rng))
    assert calls == [7]


def test_finished_episodes_wait_until_they_are_reset():
    game = problem()
    batch = make(SEQUENTIAL, 3, problem=game)
    assert batch.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    batch.reset()
    vectors = game.space.sample(3, np.random.default_rng(0))
    for column in vectors.T:
        _, earned, over, _, _ = batch.step(column)
    assert over.all() and earned.any()
    observations, infos = batch.reset(options={"reset_mask": np.array([True, False, False])})
    assert infos["_action_mask"].tolist() == [True, False, False]
    fresh, _ = batch.reset(options={"reset_mask": np.array([True, False, False])})
    assert (observations["obs"] == fresh["obs"]).all()
    for column in vectors.T:
        _, earned, over, _, infos = batch.step(column)
        assert over[1:].all() and not earned[1:].any()
    assert over[0] and infos["_feasible"].tolist() == [True, False, False]
    assert game.meter.used == 4


@SHELLS
def test_what_was_returned_changes_only_where_asked_for(env_id):
    for copy in (True, False):
        batch = make(env_id, 2, task=ToyTask(), copy=copy)
        first, _ = batch.reset()
        before = first["mask"].copy()
        second, *_ = batch.step(actions_of(batch, first, np.random.default_rng(0)))
        assert (second["mask"] is first["mask"]) is not copy
        assert (first["mask"] == before).all() or not copy


@pytest.mark.parametrize("mask", [np.array([True]), np.array([1, 0]), True])
def test_a_reset_mask_has_a_boolean_an_episode(mask):
    batch = make(SEQUENTIAL, 2, task=ToyTask())
    with pytest.raises(InputError, match="must be 2 booleans"):
        batch.reset(options={"reset_mask": mask})
