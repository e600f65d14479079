"""The history keeps the best and proposes nothing twice."""

from __future__ import annotations

import numpy as np
from fakes import ToySpace, ToyTask

from lts_bench.agents._history import ATTEMPTS, History, values

SPACE = ToySpace()


def test_feasible_strategies_are_worth_more_than_all_others_then_small_violations():
    task = ToyTask(memory_limit_bytes=1 / 8)
    answers = task.evaluate(SPACE.sample(500, np.random.default_rng(0)))
    worth = values(answers)
    assert worth[answers["feasible"]].min() > 0 > worth[~answers["feasible"]].max()
    order = np.argsort(answers["violation"].sum(axis=1)[~answers["feasible"]], kind="stable")
    assert (np.diff(worth[~answers["feasible"]][order]) <= 0).all()


def test_the_best_are_kept_once_each():
    vectors = SPACE.sample(50, np.random.default_rng(0))
    worth = np.arange(50.0)
    history = History(SPACE, 3)
    history.add(vectors[:30], worth[:30])
    history.add(vectors[20:], worth[20:])
    history.add(vectors[49:], worth[49:])
    assert history.values.tolist() == [49.0, 48.0, 47.0]
    assert np.array_equal(history.vectors, vectors[[49, 48, 47]])


def test_the_best_of_distinct_degrees_are_kept():
    rng = np.random.default_rng(0)
    vectors = rng.permutation(np.unique(SPACE.sample(60, rng), axis=0))
    worth = np.arange(float(len(vectors)))
    history = History(SPACE, 4, apart=True)
    for part in np.array_split(np.arange(len(vectors)), 6):
        history.add(vectors[part], worth[part])
    best = sorted((worth[vectors[:, 0] == degrees].max() for degrees in np.unique(vectors[:, 0])), reverse=True)
    assert history.values.tolist() == best[:4]
    assert len(set(history.vectors[:, 0].tolist())) == 4


def test_what_was_evaluated_is_not_proposed_again():
    history, rng = History(SPACE, 1), np.random.default_rng(0)
    old, new = (
        np.unique(SPACE.sample(40, np.random.default_rng(1)), axis=0)[part] for part in (slice(0, 8), slice(8, 16))
    )
    history.add(old, np.zeros(8))
    draws = iter([old, np.concatenate((new[:4], old[4:])), new])
    assert np.array_equal(history.propose(lambda: next(draws), rng), new)


def test_where_nothing_new_is_drawn_strategies_are_random():
    history, rng = History(SPACE, 1), np.random.default_rng(0)
    old = SPACE.sample(8, rng)
    history.add(old, np.zeros(8))
    drawn = []
    proposed = history.propose(lambda: drawn.append(0) or old.copy(), rng)
    assert len(drawn) == 1 + ATTEMPTS
    assert SPACE.legal(proposed).all()
    assert (proposed == old).all(axis=1).mean() < 0.5


def test_unseen_vectors_come_once():
    history, vectors = History(SPACE, 1), np.unique(SPACE.sample(20, np.random.default_rng(0)), axis=0)
    history.add(vectors[:5], np.zeros(5))
    assert np.array_equal(history.unseen(np.concatenate((vectors, vectors))), vectors[5:])
