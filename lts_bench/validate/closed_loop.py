"""Latencies of a closed loop: a fixed number of clients, each sends its next request when the last is answered."""

from __future__ import annotations

from dataclasses import dataclass

from lts_bench.cost.steady import Round, prompt_seconds
from lts_bench.specs.engine import Engine
from lts_bench.specs.workload import Workload


@dataclass(frozen=True)
class ClosedLoop:
    """Clients of one data-parallel rank.

    Attributes:
        clients: all of them, those that wait or prefill included.
        batch: those that the rank holds; the others queue for room in the KV cache.
        at: the round at that batch.
        prompt: seconds of a prompt through all stages, in a step of its own.
        pp: pipeline stages.
    """

    engine: Engine
    workload: Workload
    clients: float
    batch: float
    at: Round
    prompt: float
    pp: int = 1

    @property
    def _prefill_seconds(self) -> float:
        """Prefill of the others in one round: that of all less the share of a sequence's own."""
        share = (self.batch - 1) / self.batch
        return float(prompt_seconds(self.pp, self.at, self.at.decode) * share)

    @property
    def tpot_seconds(self) -> float:
        """One token: a decode step, and the prompts of the others that arrive meanwhile."""
        return float(self.at.decode) + self._prefill_seconds

    @property
    def ttft_seconds(self) -> float:
        """One prompt: its prefill, what is in its way, the request's handling, and the queue for room.

        In the way are half a decode step, the prefill under way (M/D/1), and the prompts of a burst: sequences that
        began together end together, ``burst`` is the share of the others that they make up on average.
        """
        busy = min(self._prefill_seconds / self.tpot_seconds, 0.95)
        waiting = self.prompt / 2 * (busy / (1 - busy) + self.engine.burst * (self.batch - 1))
        fixed = self.engine.request_seconds(self.workload.isl)
        return self.prompt + waiting + float(self.at.decode) / 2 + fixed + self._queue_seconds

    @property
    def _queue_seconds(self) -> float:
        """Little's law for the clients that find no room."""
        return (self.clients - self.batch) / self.batch * self.workload.osl * self.tpot_seconds
