"""A score may only change together with `COST_MODEL_VERSION`: the committed certificates are the witnesses."""

from __future__ import annotations

import pytest

from lts_bench.cost.model import COST_MODEL_VERSION
from lts_bench.exact.certificates import Certificate, stored_certificates
from lts_bench.results.rescoring import rescored, same
from lts_bench.space.check import legal_strategy
from lts_bench.space.pool_space import PoolSpace
from lts_bench.specs.suite import list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task

ADVICE = "a score has changed: raise COST_MODEL_VERSION, then certify all suites again"


def witnesses(suite: str) -> list[tuple[TaskSpec, int]]:
    """Return tasks of a suite with numbers of instances: every third one, nominal; of smoke all, with all instances.

    Of disagg, whose spaces are large, it is the first one.
    """
    chosen = load_suite(suite)
    if suite == "smoke":
        return [(spec, number) for spec in chosen.tasks for number in range(chosen.seeds + 1)]
    step = len(chosen.tasks) if suite == "disagg" else 3
    return [(spec, 0) for spec in chosen.tasks[::step]]


def goodput(whole: Task, certificate: Certificate) -> float:
    """Return what the certificate's strategy reaches now; a space of its degrees alone, of one pool, is quick."""
    drawn = whole.instance(certificate.instance, certificate.draw)
    if not isinstance(whole.space, PoolSpace):
        degrees = legal_strategy(certificate.strategy, whole.model, whole.cluster).strategy.degrees
        drawn = Task(whole.spec, (degrees,)).on(drawn.cluster, drawn.engine)
    return rescored(drawn, certificate.strategy).goodput_per_npu


@pytest.mark.parametrize("suite", list_suites(generated=False))
def test_no_score_changes_unless_the_version_does(suite: str) -> None:
    changed = {}
    for spec, number in witnesses(suite):
        task = Task(spec)
        certificate = stored_certificates().get((task.digest, COST_MODEL_VERSION, number))
        assert certificate is not None, f"{spec.name} has no certificate of instance {number}"
        now = goodput(task, certificate)
        if not same(certificate.goodput_per_npu, now):
            changed[f"{spec.name} instance {number}"] = (certificate.goodput_per_npu, now)
    assert not changed, ADVICE
