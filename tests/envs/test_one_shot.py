"""A whole strategy in one action: what the mask promises, and what happens to choices that don't go together."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from fakes import ToyTask

from lts_bench.budget import Budget
from lts_bench.envs.common import rewards, scaled_features
from lts_bench.problem import LocalProblem

ONE_SHOT = "lts_bench:lts/ShardOneShot-v0"


def problem() -> LocalProblem:
    return LocalProblem.of(ToyTask(), Budget("test", 1_000, 1.0))


def make(game: LocalProblem):
    env = gymnasium.make(ONE_SHOT, problem=game).unwrapped
    env.action_space.seed(0)
    return env


def test_what_is_observed_are_the_features():
    game = problem()
    observation, info = make(game).reset()
    assert (observation["obs"] == scaled_features(game.features)).all()
    assert (observation["mask"] == info["action_mask"]).all()


def test_the_mask_admits_what_is_legal_under_some_degrees():
    game = problem()
    observation, _ = make(game).reset()
    parts = np.split(observation["mask"], np.cumsum(game.space.sizes)[:-1])
    masks = np.stack([game.space.mask(degrees) for degrees in range(game.space.sizes[0])])
    assert parts[0].all()
    for position, part in enumerate(parts):
        assert (part == masks[:, position, : len(part)].any(axis=0)).all()


def test_no_legal_strategy_is_masked():
    game = problem()
    mask = make(game).reset()[1]["action_mask"]
    starts = np.cumsum(game.space.sizes) - game.space.sizes
    assert mask[starts + game.space.sample(200, np.random.default_rng(0))].all()


def test_an_action_is_scored_as_it_is():
    game = problem()
    env = make(game)
    legal = 0
    for _ in range(50):
        _, info = env.reset()
        parts = tuple(np.split(info["action_mask"], np.cumsum(game.space.sizes)[:-1]))
        action = env.action_space.sample(mask=parts)
        _, reward, over, truncated, info = env.step(action)
        answer = ToyTask().evaluate(action[np.newaxis])
        assert over and not truncated
        assert (info["vector"] == action).all()
        assert info["legal"] == answer["legal"][0]
        assert reward == rewards(answer, 20.0)[0]
        legal += info["legal"]
    assert (game.meter.used, game.meter.illegal) == (50, 50 - legal)
    assert legal < 50


def test_choices_that_do_not_go_together_cost_an_evaluation_and_earn_the_least():
    game = problem()
    env = make(game)
    env.reset()
    space = game.space
    alone = int(np.flatnonzero((space.degrees[:, 3] == 1) & (space.degrees[:, 4] == 1))[0])
    split = np.array([alone, *(choices.index("M,M") if "M,M" in choices else 0 for choices in space.choices[1:])])
    _, reward, _, _, info = env.step(split)
    assert (reward, info["legal"], game.meter.illegal) == (-1.0, False, 1)
    env.reset()
    assert env.step(space.repair(split[np.newaxis])[0])[4]["legal"]


@pytest.mark.parametrize("actions", [1, 3])
def test_a_strategy_is_scored_once(actions):
    game = problem()
    env = make(game)
    env.reset()
    for _ in range(actions):
        env.step(game.space.sample(1, np.random.default_rng(0))[0])
    assert game.meter.used == 1
