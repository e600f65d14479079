"""Training across the tasks of a suite: what is drawn, built and kept, in spaces that all tasks share."""

from __future__ import annotations

from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from lts_bench.envs import games, sample_choices
from lts_bench.envs.games import choose_games
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import load_suite
from lts_bench.task import Task

SEQUENTIAL, ONE_SHOT = "lts_bench:lts/Shard-v0", "lts_bench:lts/ShardOneShot-v0"
SMOKE = load_suite("smoke").tasks


def suite_games(**options):
    return choose_games(None, None, options.pop("suite", "smoke"), None, options.pop("largest", None))


@pytest.fixture
def built(monkeypatch) -> list[str]:
    """The names of the tasks built meanwhile."""
    names = []

    class Watched(Task):
        def __init__(self, spec):
            names.append(spec.name)
            super().__init__(spec)

    monkeypatch.setattr("lts_bench.task.Task", Watched)
    return names


def test_each_reset_draws_a_task_as_the_seed_says():
    env = gymnasium.make(SEQUENTIAL, suite="smoke")
    first = [env.reset(seed=seed)[1]["task"] for seed in range(20)]
    assert first == [env.reset(seed=seed)[1]["task"] for seed in range(20)]
    assert set(first) == {spec.name for spec in SMOKE}
    env.reset(seed=5)
    drawn = [env.reset()[1]["task"] for _ in range(10)]
    env.reset(seed=5)
    assert drawn == [env.reset()[1]["task"] for _ in range(10)]


@pytest.mark.parametrize("suite", ["smoke", SMOKE, iter(SMOKE)], ids=["name", "tasks", "iterator"])
def test_a_suite_is_a_name_or_tasks(suite):
    assert suite_games(suite=suite).count == 3


def test_a_suite_is_a_file(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text(
        "name: mine\ndescription: one task\nagents: [random]\nseeds: 1\nbudget: e50\ntasks:\n"
        "  - name: llama-3.1-8b/h100x2/chat\n    model: llama-3.1-8b\n    cluster: h100x2\n"
        "    workload: {isl: 64, osl: 64}\n",
        encoding="utf-8",
    )
    assert suite_games(suite=str(file)).count == suite_games(suite=file).count == 1


def test_a_strategy_of_a_suite_is_worth_what_its_task_says():
    env, rng = gymnasium.make(SEQUENTIAL, suite="smoke"), np.random.default_rng(0)
    tasks = {spec.name: Task(spec) for spec in SMOKE}
    lengths = set()
    for seed in range(12):
        observation, info = env.reset(seed=seed)
        task, over, taken = tasks[info["task"]], False, 0
        while not over:
            assert not observation["mask"][task.space.sizes[taken] :].any()
            action = sample_choices(observation["mask"][np.newaxis], rng)[0]
            observation, reward, over, _, info = env.step(action)
            taken += 1
        lengths.add(taken)
        vector = info["vector"][: len(task.space.sizes)]
        answer = task.evaluate(vector[np.newaxis])[0]
        assert answer["legal"] and info["goodput_per_npu"] == answer["goodput_per_npu"]
        assert reward == answer["goodput_per_npu"] / task.reference.goodput_per_npu or not answer["feasible"]
    assert lengths == {len(task.space.sizes) for task in tasks.values()}


def test_one_shots_ignore_the_decisions_a_task_does_not_have():
    env = gymnasium.make(ONE_SHOT, suite="smoke")
    tasks = {spec.name: Task(spec) for spec in SMOKE}
    for seed in range(6):
        _, info = env.reset(seed=seed)
        space = tasks[info["task"]].space
        parts = np.split(info["action_mask"], np.cumsum(env.action_space.nvec)[:-1])
        assert [int(part.sum()) for part in parts[len(space.sizes) :]] == [1] * (len(parts) - len(space.sizes))
        action = np.array([size - 1 for size in env.action_space.nvec])
        action[: len(space.sizes)] = space.sample(1, np.random.default_rng(seed))[0]
        assert env.step(action)[4]["legal"]


def test_nothing_is_built_before_it_is_drawn_and_few_tasks_are_kept(monkeypatch, built):
    monkeypatch.setattr(games, "KEPT_TASKS", 2)
    playable = suite_games()
    assert built == []
    for index in (0, 1, 0, 2, 0):
        assert playable[index].name == SMOKE[index].name
    assert built == [SMOKE[index].name for index in (0, 1, 2)]
    assert playable[1].name == built[-1] == SMOKE[1].name


def test_vector_episodes_draw_their_own_tasks():
    env = gymnasium.make_vec(SEQUENTIAL, num_envs=16, vectorization_mode="vector_entry_point", suite="smoke")
    _, infos = env.reset(seed=0)
    assert set(infos["task"]) == {spec.name for spec in SMOKE}
    which = np.arange(16) < 4
    _, again = env.reset(options={"reset_mask": which})
    assert (again["task"][4:] == infos["task"][4:]).all()
    assert (again["_task"] == which).all()


def test_a_suite_of_one_task_tells_its_name_as_well():
    assert gymnasium.make(SEQUENTIAL, suite=SMOKE[:1]).reset()[1]["task"] == SMOKE[0].name


def test_what_is_played_is_built_once_however_many_tasks_are_kept(monkeypatch, built):
    monkeypatch.setattr(games, "KEPT_TASKS", 1)
    env = gymnasium.make_vec(SEQUENTIAL, num_envs=16, vectorization_mode="vector_entry_point", suite="smoke")
    with pytest.raises(ResetNeeded):
        _ = env.problem
    env.reset(seed=0)
    env.reset(options={"reset_mask": np.arange(16) < 8})
    assert sorted(built) == sorted(spec.name for spec in SMOKE)


def test_stated_sizes_spare_the_listing_and_must_suffice():
    stated = gymnasium.make(SEQUENTIAL, suite="smoke", largest=(500, 30))
    observation, info = stated.reset(seed=1)
    assert stated.action_space.n == 500 and observation in stated.observation_space
    assert observation["mask"].sum() == len(Task(next(s for s in SMOKE if s.name == info["task"])).space.degrees)
    tight = gymnasium.make(SEQUENTIAL, suite=[SMOKE[1], SMOKE[1]], largest=(10, 30))
    with pytest.raises(InputError, match="a task is larger: 157 degrees, 9 operators"):
        tight.reset()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"suite": "smoke", "reference": 1.0}, "each task of a suite has its own"),
        ({"task": "llama-3.1-8b/h100x8/chat", "largest": (10, 10)}, "belongs to a suite"),
        ({"suite": "smoke", "largest": (0, 3)}, "two positive integers"),
        ({"suite": "smoke", "largest": (3,)}, "two positive integers"),
        ({"suite": []}, "has no tasks"),
        ({"suite": "smok"}, "did you mean 'smoke'"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, told):
    with pytest.raises(InputError, match=told):
        gymnasium.make(SEQUENTIAL, **options)
