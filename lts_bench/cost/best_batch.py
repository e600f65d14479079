"""The best batch size of many strategies at once: the best rung of the ladder, refined between its neighbours."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from lts_bench.cost.steady import FloatArray, Replica, Round, Rules, rate, round_between

Fields = TypeVar("Fields", Replica, Round)


def taken(fields: Fields, index: Any) -> Fields:
    """Every array of a tuple, indexed."""
    return type(fields)(*(np.asarray(each)[index] for each in fields))


def best_points(
    replica: Replica, rules: Rules, ladder: FloatArray, rounds: Round
) -> tuple[FloatArray, FloatArray, Round]:
    """(rate, b, round) of the best points; ties: the smallest b, and a rate of 0 means that none is feasible.

    Args:
        replica: (n,).
        rules: what is feasible.
        ladder: (rungs,) batch sizes.
        rounds: (n, rungs).
    """
    rates = rate(taken(replica, (slice(None), None)), rules, ladder, rounds)
    row, rungs = np.arange(len(rates)), rates.argmax(axis=1)
    best, batch, at = rates[row, rungs], ladder[rungs], taken(rounds, (row, rungs))
    for rung in np.unique(rungs[best > 0]).tolist():
        mine = np.flatnonzero((rungs == rung) & (best > 0))
        its, its_rounds, least = taken(replica, mine), taken(rounds, mine), best[mine]
        for low in range(max(rung - 1, 0), min(rung + 1, len(ladder) - 1)):
            if ladder[low + 1] - ladder[low] > 1:
                found, b, between = _best_between(its, rules, ladder, its_rounds, low, least, upwards=low == rung)
                better = (found > best[mine]) | ((found == best[mine]) & (b < batch[mine]))
                best[mine[better]], batch[mine[better]] = found[better], b[better]
                for field, refined in zip(at, between, strict=True):
                    field[mine[better]] = refined[better]
    return best, batch, at


def _best_between(
    replica: Replica, rules: Rules, ladder: FloatArray, rounds: Round, low: int, least: FloatArray, *, upwards: bool
) -> tuple[FloatArray, FloatArray, Round]:
    """(rate, b, round) of the best integers strictly between rung ``low`` and the next one.

    A rate of 0 stands for none: where the integer beside the best rung has less than ``least``.
    """
    span = ladder[low + 1] - ladder[low]
    more = np.arange(1.0, span)
    below, above = (taken(rounds, (slice(None), slice(rung, rung + 1))) for rung in (low, low + 1))
    between = round_between(below, above, more / span)
    rates = rate(taken(replica, (slice(None), None)), rules, ladder[low] + more, between)
    row, at = np.arange(len(rates)), rates.argmax(axis=1)
    found = np.where(rates[:, 0 if upwards else -1] >= least, rates[row, at], 0.0)
    return found, ladder[low] + more[at], taken(between, (row, at))
