"""What `render` shows of an episode."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.envs.rendering import strategy_so_far
from lts_bench.report.strategy_drawing import HEIGHT, WIDTH, strategy_image
from lts_bench.report.strategy_text import strategy_text
from lts_bench.space.strategy import Degrees
from lts_bench.specs.failure import InputError
from lts_bench.task import load_task

SEQUENTIAL, ONE_SHOT = "lts_bench:lts/Shard-v0", "lts_bench:lts/ShardOneShot-v0"
MOE = "mixtral-8x7b/a100x16/chat"


@pytest.mark.parametrize(("mode", "show"), [("ansi", strategy_text), ("rgb_array", strategy_image)])
def test_a_complete_strategy_looks_as_the_decoded_one(mode, show):
    task = load_task(MOE)
    vector = task.space.sample(1, np.random.default_rng(0))[0]
    strategy = task.space.decode(vector)
    expected = show(strategy.degrees, strategy.sharding, 8)
    for env_id, actions in ((SEQUENTIAL, vector), (ONE_SHOT, [vector])):
        env = gymnasium.make(env_id, task=task, render_mode=mode).unwrapped
        env.reset()
        open_yet = env.render()
        for action in actions:
            env.step(action)
        assert np.array_equal(env.render(), expected)
        assert not np.array_equal(open_yet, expected)


def test_images_are_of_a_fixed_size_and_show_every_step():
    env = gymnasium.make(SEQUENTIAL, task=ToyTask(), render_mode="rgb_array").unwrapped
    env.reset()
    frames = [env.render()]
    for action in ToyTask().space.sample(1, np.random.default_rng(1))[0]:
        env.step(action)
        frames.append(env.render())
    assert {frame.shape for frame in frames} == {(HEIGHT, WIDTH, 3)}
    assert len({frame.tobytes() for frame in frames}) == len(frames)


def test_what_is_decided_is_told_and_the_rest_is_open():
    space = ToyTask().space
    assert strategy_so_far(space, np.array([], dtype=int)) == (None, dict.fromkeys(space.names[1:], ("", "")))
    degrees, sharding = strategy_so_far(space, np.array([3, 5]))
    assert degrees == Degrees(*map(int, space.degrees[3]))
    assert list(sharding.values()) == [tuple(space.choices[1][5].split(",")), *[("", "")] * (len(space.names) - 2)]


def test_choices_that_do_not_exist_are_shown_as_such():
    space = ToyTask().space
    degrees, sharding = strategy_so_far(space, np.array([10_000, -1]))
    assert degrees is None and next(iter(sharding.values())) == ("?", "?")


def test_vector_environments_show_every_episode():
    options = {"vectorization_mode": "vector_entry_point", "suite": "smoke"}
    env = gymnasium.make_vec(SEQUENTIAL, num_envs=3, render_mode="ansi", **options)
    env.reset(seed=0)
    texts = env.render()
    assert len(texts) == 3 and all(text.startswith("degree") for text in texts)
    silent = gymnasium.make_vec(SEQUENTIAL, num_envs=3, **options)
    assert silent.render() is None


def test_an_unknown_mode_is_refused():
    from lts_bench.envs import ShardEnv

    with pytest.raises(InputError, match="no such mode"):
        ShardEnv(task=ToyTask(), render_mode="ascii")


def test_without_a_known_domain_no_level_is_told():
    task = ToyTask()
    task.features = {name: value for name, value in task.features.items() if name != "domain_devices"}
    for known in (ToyTask(), task):
        env = gymnasium.make(SEQUENTIAL, task=known, render_mode="ansi").unwrapped
        env.reset()
        env.step(len(known.space.degrees) - 1)
        assert ("scale" in env.render()) is (known is not task)
