"""The meter counts and records what agents ask for, whatever they ask for."""

from __future__ import annotations

import numpy as np
import pytest
from fakes import ToyTask
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from lts_bench.answer import ANSWER, ILLEGAL_VIOLATION
from lts_bench.budget import BUDGETS, UNLIMITED, Budget, BudgetExhausted, Meter, parse_budget
from lts_bench.specs.failure import InputError

TASK = ToyTask()
WIDTH = len(TASK.space.sizes)


def meter(evaluations: int = 100, feedback: str = "graded", **options) -> Meter:
    return Meter(TASK.evaluate, Budget("test", evaluations, 1.0), TASK.space, feedback=feedback, **options)


def sample(n: int, seed: int = 0) -> np.ndarray:
    return TASK.space.sample(n, np.random.default_rng(seed))


class Scripted:
    """Gives prescribed goodputs, one a row in turn; 0 is infeasible."""

    def __init__(self, *goodputs: float) -> None:
        self.goodputs = list(goodputs)

    def __call__(self, vectors: np.ndarray) -> np.ndarray:
        answers = np.zeros(len(vectors), dtype=ANSWER)
        answers["goodput_per_npu"] = [self.goodputs.pop(0) for _ in vectors]
        answers["feasible"], answers["legal"] = answers["goodput_per_npu"] > 0, True
        return answers


def test_budgets_are_the_four_official_ones():
    assert [(name, budget.evaluations) for name, budget in BUDGETS.items()] == [
        ("e50", 50),
        ("e100", 100),
        ("e1k", 1_000),
        ("e10k", 10_000),
    ]


@pytest.mark.parametrize("name", BUDGETS)
def test_parse_budget_returns_the_budget_of_that_name(name):
    assert parse_budget(name).name == name


def test_parse_budget_suggests_the_nearest_name():
    with pytest.raises(InputError, match="did you mean 'e1k'"):
        parse_budget("e1kk")


def test_answers_are_those_of_the_task():
    vectors = sample(20)
    assert meter().evaluate(vectors).tobytes() == TASK.evaluate(vectors).tobytes()


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(0, 60))
def test_every_evaluation_counts_and_none_is_beyond_the_budget(batches, limit):
    counting = meter(limit)
    answered = 0
    for n in batches:
        left = counting.remaining
        if n <= left:
            answered += len(counting.evaluate(sample(n)))
        else:
            with pytest.raises(BudgetExhausted) as caught:
                counting.evaluate(sample(n))
            assert len(caught.value.answers) == left
            answered += left
    assert counting.used == answered == min(sum(batches), limit)


def test_exhaustion_carries_the_answers_to_the_prefix():
    counting, vectors = meter(5), sample(8)
    with pytest.raises(BudgetExhausted) as caught:
        counting.evaluate(vectors)
    assert caught.value.answers.tobytes() == TASK.evaluate(vectors[:5]).tobytes()
    assert counting.remaining == 0
    assert len(counting.evaluate(vectors[:0])) == 0


@given(st.integers(1, 40), st.integers(0, 2**31 - 1))
def test_ledger_does_not_depend_on_how_vectors_are_batched(cut, seed):
    vectors = sample(40, seed)
    whole, parts = meter(clock=lambda: 0.0), meter(clock=lambda: 0.0)
    whole.evaluate(vectors)
    for start in range(0, 40, cut):
        parts.evaluate(vectors[start : start + cut])
    for name in ("used", "unique", "infeasible", "illegal", "first_feasible", "trace"):
        assert getattr(whole, name) == getattr(parts, name)


def test_trace_keeps_strict_improvements_with_evaluation_and_seconds():
    ticks = iter([100.0, 101.0, 103.0])
    counting = Meter(
        Scripted(0.0, 2.0, 2.0, 1.0, 3.0, 5.0, 5.0),
        Budget("test", 10, 1.0),
        TASK.space,
        clock=lambda: next(ticks),
    )
    vectors = sample(7)
    counting.evaluate(vectors[:4])
    counting.evaluate(vectors[4:])
    found = [(point.evaluation, point.seconds, point.goodput_per_npu) for point in counting.trace]
    assert found == [(2, 1.0, 2.0), (5, 3.0, 3.0), (6, 3.0, 5.0)]
    assert [point.vector for point in counting.trace] == [tuple(vectors[i].tolist()) for i in (1, 4, 5)]
    assert counting.first_feasible == 2
    assert counting.infeasible == 1
    assert counting.best == counting.trace[-1]


def test_without_a_feasible_strategy_there_is_no_best():
    counting = Meter(Scripted(0.0, 0.0), Budget("test", 2, 1.0), TASK.space)
    counting.evaluate(sample(2))
    assert counting.best is None
    assert counting.first_feasible is None
    assert counting.infeasible == 2


def test_duplicates_cost_and_are_told_apart_by_their_canonical_form():
    counting, vectors = meter(), sample(3)
    counting.evaluate(np.concatenate([vectors, vectors]))
    counting.evaluate(vectors)
    assert counting.used == 9
    assert counting.unique == len(np.unique(vectors, axis=0))


def test_strategies_with_one_canonical_form_are_the_same_where_they_are_legal():
    class IdleLast:
        sizes = np.array([4, 4])

        def canonical(self, vectors: np.ndarray) -> np.ndarray:
            return vectors * [1, 0]

    def score(vectors: np.ndarray) -> np.ndarray:
        answers = np.zeros(len(vectors), dtype=ANSWER)
        answers["legal"] = vectors[:, 0] < 3
        return answers

    counting = Meter(score, Budget("test", 9, 1.0), IdleLast())
    counting.evaluate([[1, 0], [1, 1], [2, 3]])
    counting.evaluate([[1, 2], [3, 0], [3, 1]])
    assert counting.unique == 4


def test_nothing_is_remembered_without_a_limit():
    unlimited = Meter(TASK.evaluate, UNLIMITED, TASK.space)
    unlimited.evaluate(sample(40))
    assert (unlimited.used, unlimited.unique, len(unlimited._asked)) == (40, 0, 0)
    assert unlimited.best is not None


BAD_ROWS = {
    "too long": np.zeros((2, WIDTH + 1), dtype=np.int64),
    "too short": np.zeros((2, WIDTH - 1), dtype=np.int64),
    "no columns": np.zeros((2, 0), dtype=np.int64),
    "three axes": np.zeros((2, WIDTH, 2), dtype=np.int64),
    "floats": np.zeros((2, WIDTH)),
    "booleans": np.zeros((2, WIDTH), dtype=np.bool_),
    "text": [["a"] * WIDTH] * 2,
    "ragged": [[0] * WIDTH, [0]],
    "negative": np.full((2, WIDTH), -1),
    "no such choice": np.tile(TASK.space.sizes, (2, 1)),
    "huge": np.full((2, WIDTH), 2**64 - 1, dtype=np.uint64),
    "beyond any integer type": [[2**70] * WIDTH] * 2,
}


@pytest.mark.parametrize("vectors", BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_rows_that_are_no_vectors_cost_one_evaluation_each_and_are_illegal(vectors):
    counting = meter()
    answers = counting.evaluate(vectors)
    assert (counting.used, counting.illegal, counting.unique, counting.infeasible) == (2, 2, 0, 0)
    assert not answers["legal"].any()
    assert not answers["feasible"].any()
    assert (answers["violation"] == ILLEGAL_VIOLATION).all()


@pytest.mark.parametrize("vectors", [None, 7, "text", object(), [1, 2], [0.5] * WIDTH])
def test_what_is_no_list_of_vectors_costs_one_evaluation(vectors):
    counting = meter()
    assert len(counting.evaluate(vectors)) == 1
    assert (counting.used, counting.illegal) == (1, 1)


@given(arrays.arrays(st.sampled_from([np.int8, np.int64, np.uint16]), (6, WIDTH), elements=st.integers(0, 40)))
def test_integers_of_any_type_are_scored_where_all_choices_exist(vectors):
    counting = meter()
    answers = counting.evaluate(vectors)
    exists = (vectors < TASK.space.sizes).all(axis=1)
    assert answers[exists].tobytes() == TASK.evaluate(vectors[exists].astype(np.int64)).tobytes()
    assert counting.illegal == 6 - int(answers["legal"].sum())
    assert counting.unique == len(np.unique(vectors[exists], axis=0))


def test_good_rows_are_scored_beside_bad_ones():
    counting, vectors = meter(), sample(3)
    mixed = vectors.copy()
    mixed[1, 0] = -1
    answers = counting.evaluate(mixed)
    assert answers[[0, 2]].tobytes() == TASK.evaluate(vectors[[0, 2]]).tobytes()
    assert not answers["legal"][1]


def test_one_flat_vector_is_one_row():
    vector = sample(1)[0]
    assert meter().evaluate(vector).tobytes() == TASK.evaluate(vector[np.newaxis]).tobytes()


def test_flat_feedback_tells_goodput_and_no_distance():
    vectors = sample(200)
    graded, counting = TASK.evaluate(vectors), meter(200, "flat")
    flat = counting.evaluate(vectors)
    for name in ("goodput_per_npu", "feasible", "legal"):
        assert (flat[name] == graded[name]).all()
    for name in ("ttft_s", "tpot_s", "memory_bytes"):
        assert np.isnan(flat[name]).all()
    assert not graded["feasible"].all()
    assert (flat["violation"] == np.where(graded["feasible"], 0.0, ILLEGAL_VIOLATION)[:, np.newaxis]).all()
    assert counting.infeasible == int((graded["legal"] & ~graded["feasible"]).sum())


def test_flat_feedback_blanks_the_prefix_too():
    with pytest.raises(BudgetExhausted) as caught:
        meter(1, "flat").evaluate(sample(2))
    assert np.isnan(caught.value.answers["memory_bytes"]).all()


def test_unknown_feedback_is_refused():
    with pytest.raises(InputError, match="graded, flat"):
        meter(feedback="loud")


def test_agents_cannot_change_the_ledger_through_their_arrays():
    counting, vectors = meter(), sample(30)
    answers = counting.evaluate(vectors)
    best = counting.best
    vectors[:], answers["goodput_per_npu"] = 0, 1e9
    assert counting.best == best
