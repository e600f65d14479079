"""A replay step by step in plain Python: what the compiled one must equal, written from its rules alone.

Every step is walked through, every sequence counts its own tokens, the KV cache holds sets of blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import floor, inf

from lts_bench.serving.policy import Policy
from lts_bench.serving.replay import Replicas
from lts_bench.serving.step_times import attention_seconds, decode_seconds, prefill_seconds
from lts_bench.serving.trace import Trace


@dataclass
class Sequence:
    index: int
    arrival: float
    prompt: int
    output: int
    blocks: list[int]
    made: int = 0
    computed: int = 0
    goal: int = 0
    shared: list[int] = field(default_factory=list)
    owned: int = 0
    admitted: float | None = None
    first: float | None = None
    finish: float | None = None
    reused: int = 0
    preempted: int = 0


class Cache:
    """Blocks of one rank; ``unused`` is ordered, the longest unused first."""

    def __init__(self, policy: Policy, reuse_tokens: int) -> None:
        self.policy, self.reuse_tokens = policy, reuse_tokens
        self.free, self.users, self.unused = policy.kv_blocks, dict[int, int](), list[int]()
        self.each = reuse_tokens // policy.block_tokens
        self.least = self.free

    def room(self) -> int:
        return self.free + self.each * len(self.unused)

    def take(self, blocks: int) -> None:
        while self.free < blocks:
            del self.users[self.unused.pop(0)]
            self.free += self.each
        self.free -= blocks
        self.least = min(self.least, self.room())
        assert self.free >= 0

    def hits(self, one: Sequence) -> list[int]:
        if not self.reuse_tokens:
            return []
        whole = one.blocks[: min(one.prompt, one.prompt + one.made - 1) // self.reuse_tokens]
        found: list[int] = []
        for block in whole:
            if block not in self.users:
                break
            found.append(block)
        return found

    def needed(self, one: Sequence, tokens: int, overshoot: int) -> int:
        if self.policy.reserve:
            tokens = one.prompt + one.output - 1 + overshoot
        return -(-tokens // self.policy.block_tokens)

    def admit(self, one: Sequence, overshoot: int) -> bool:
        one.goal = one.prompt + one.made
        found = self.hits(one)
        blocks = self.needed(one, one.goal, overshoot) - self.each * len(found)
        if blocks > self.room() - self.each * sum(self.users[block] == 0 for block in found):
            return False
        for block in found:
            if self.users[block] == 0:
                self.unused.remove(block)
            self.users[block] += 1
        self.take(blocks)
        one.owned, one.shared, one.computed = blocks, found, self.reuse_tokens * len(found)
        return True

    def share(self, one: Sequence) -> None:
        if self.reuse_tokens:
            for block in one.blocks[len(one.shared) : one.prompt // self.reuse_tokens]:
                if block in self.users:
                    break
                self.users[block] = 1
                one.shared.append(block)
                one.owned -= self.each

    def release(self, one: Sequence) -> None:
        self.free += one.owned
        one.owned = 0
        for block in reversed(one.shared):
            self.users[block] -= 1
            if self.users[block] == 0:
                self.unused.append(block)
        one.shared = []


class Rank:
    def __init__(self, policy: Policy, reuse_tokens: int) -> None:
        self.queue: list[Sequence] = []
        self.cache = Cache(policy, reuse_tokens)
        self.serving = 0


class Unit:
    """One microbatch: for every rank the sequences that decode and those that fill."""

    def __init__(self, dp: int) -> None:
        self.running: list[list[Sequence]] = [[] for _ in range(dp)]
        self.filling: list[list[Sequence]] = [[] for _ in range(dp)]
        self.state, self.time, self.decodes, self.steps, self.decoded = "idle", 0.0, False, 0, 0.0


class Pipeline:
    def __init__(self, served: Replicas, reuse_tokens: int, last_arrival: float) -> None:
        self.served, self.policy, self.last_arrival = served, served.policy, last_arrival
        self.ranks = [Rank(self.policy, reuse_tokens) for _ in range(served.dp)]
        self.units = [Unit(served.dp) for _ in range(served.pp)]
        self.free = self.last_end = 0.0
        self.rows_each = 1 + self.policy.drafted_tokens

    def gain(self, unit: Unit) -> int:
        accepted = self.policy.accepted_tokens
        return floor((unit.steps + 1) * accepted) - floor(unit.steps * accepted)

    def advance(self, until: float) -> None:
        while True:
            flying = min((u for u in self.units if u.state == "flying"), key=lambda u: u.time, default=None)
            ready = min((u for u in self.units if u.state == "ready"), key=lambda u: u.time, default=None)
            ends = flying.time if flying else inf
            begins = max(ready.time, self.free) if ready else inf
            if flying and ends <= begins and ends <= until:
                self.complete(flying)
            elif ready and begins < ends and begins < until:
                self.launch(ready, begins)
            else:
                return

    def wake(self, now: float) -> None:
        for unit in self.units:
            if unit.state == "idle":
                unit.state, unit.time = "ready", now

    def make_way(self, unit: Unit, r: int) -> None:
        one = (unit.filling[r] or unit.running[r]).pop()
        self.ranks[r].cache.release(one)
        one.preempted += 1
        self.ranks[r].serving -= 1
        self.ranks[r].queue.insert(0, one)

    def grow(self, unit: Unit) -> None:
        for r, rank in enumerate(self.ranks):
            while True:
                more = []
                for one in unit.running[r]:
                    tokens = one.prompt + one.made - 1
                    block = self.policy.block_tokens
                    more.append(
                        0 if self.policy.reserve else -(-(tokens + self.gain(unit)) // block) - -(-tokens // block)
                    )
                if sum(more) <= rank.cache.room():
                    break
                self.make_way(unit, r)
            rank.cache.take(sum(more))
            for one, blocks in zip(unit.running[r], more, strict=True):
                one.owned += blocks

    def fill(self, unit: Unit, r: int, now: float, admits: float) -> tuple[int, float, float]:
        policy, rank = self.policy, self.ranks[r]
        left = policy.step_tokens - (len(unit.running[r]) * self.rows_each if policy.chunked else 0)
        parts: list[tuple[int, int]] = []
        tokens = 0

        def compute(one: Sequence, most: int) -> None:
            nonlocal tokens
            end = min(one.goal, one.computed + most)
            parts.append((one.computed, end))
            tokens += end - one.computed
            one.computed = end

        for one in unit.filling[r]:
            if tokens < left:
                compute(one, left - tokens)
        most = min(-(-(rank.serving + len(rank.queue)) // self.served.pp), policy.max_sequences)
        while (
            rank.queue
            and rank.queue[0].arrival <= admits
            and tokens < left
            and len(unit.running[r]) + len(unit.filling[r]) < most
        ):
            one = rank.queue[0]
            if not rank.cache.admit(one, policy.overshoot_tokens):
                break
            if not policy.chunked and tokens and tokens + one.goal - one.computed > left:
                rank.cache.release(one)
                break
            rank.queue.pop(0)
            rank.serving += 1
            unit.filling[r].append(one)
            if one.admitted is None:
                one.admitted, one.reused = now, one.computed
            compute(one, left - tokens if policy.chunked else one.goal)
        attention = [sum(attention_seconds(self.served.times, at, *part) for part in parts) for at in (0, 1)]
        return tokens, attention[0], attention[1]

    def launch(self, unit: Unit, now: float) -> None:
        served, dp = self.served, self.served.dp
        if self.policy.chunked:
            self.grow(unit)
        admits = now
        if any(unit.running):
            waiting = sum(len(rank.queue) for rank in self.ranks)
            if dp > 1 and not self.policy.chunked:
                admits = unit.decoded
            if self.policy.coordinated and dp > 1 and now < self.last_arrival and waiting < dp:
                admits = -inf
        parts = [self.fill(unit, r, now, admits) for r in range(dp)]
        fullest = max(part[0] for part in parts)
        if not self.policy.chunked and not fullest:
            self.grow(unit)
        unit.decodes = any(unit.running) and (self.policy.chunked or not fullest)
        if not unit.decodes and not fullest:
            unit.state = "idle"
            return
        took = [max(part[1] for part in parts), max(part[2] for part in parts)]
        rows = 0
        for stages in (0, 1):
            if unit.decodes:
                rows = max(map(len, unit.running)) * self.rows_each
                context = max(sum(one.prompt + one.made for one in running) for running in unit.running)
                took[stages] += decode_seconds(served.times, stages, rows, context / rows)
            if fullest:
                together = sum(part[0] for part in parts)
                share = (together / fullest - 1) / (dp - 1) if dp > 1 else 0.0
                took[stages] += prefill_seconds(served.times, stages, fullest, rows, share)
        unit.state, unit.time, self.free = "flying", max(now + took[1], self.last_end + took[0]), now + took[0]
        self.last_end = unit.time

    def complete(self, unit: Unit) -> None:
        now, gained = unit.time, self.gain(unit)
        unit.steps += unit.decodes
        unit.decoded = now if unit.decodes else unit.decoded
        for r, rank in enumerate(self.ranks):
            if unit.decodes:
                for one in unit.running[r]:
                    one.made += gained
                for one in [one for one in unit.running[r] if one.made >= one.output]:
                    unit.running[r].remove(one)
                    self.end(rank, one, now)
        for r, rank in enumerate(self.ranks):
            for one in [one for one in unit.filling[r] if one.computed == one.goal]:
                unit.filling[r].remove(one)
                rank.cache.share(one)
                one.made += 1
                one.first = now if one.first is None else one.first
                if one.made == one.output:
                    self.end(rank, one, now)
                else:
                    unit.running[r].append(one)
        unit.state = "ready"
        if any(rank.queue for rank in self.ranks):
            self.wake(now)

    def end(self, rank: Rank, one: Sequence, now: float) -> None:
        rank.cache.release(one)
        rank.serving -= 1
        one.finish = now


def plain_replay(trace: Trace, served: Replicas) -> tuple[list[Sequence], list[Pipeline]]:
    policy, shared = served.policy, trace.blocks if served.policy.prefix_reuse else None
    reuse_tokens, last_arrival = shared.block_tokens if shared else 0, float(trace.arrival_s[-1])
    pipelines = [Pipeline(served, reuse_tokens, last_arrival) for _ in range(served.count)]
    ranks = [(pipeline, r) for pipeline in pipelines for r in range(served.dp)]
    requests, turn = [], 0
    for i in range(len(trace)):
        blocks = shared.ids[shared.offsets[i] : shared.offsets[i + 1]].tolist() if shared else []
        lengths = int(trace.prompt_tokens[i]), int(trace.output_tokens[i])
        one = Sequence(i, float(trace.arrival_s[i]), *lengths, blocks)
        requests.append(one)
        whole = one.prompt + one.output - 1 + policy.overshoot_tokens
        if -(-whole // policy.block_tokens) > policy.kv_blocks:
            continue
        for pipeline in pipelines:
            pipeline.advance(one.arrival)
        if policy.router == "least_loaded":
            pipeline, r = min(ranks, key=lambda at: len(at[0].ranks[at[1]].queue) + at[0].ranks[at[1]].serving)
        else:
            pipeline, r = pipelines[turn % served.count], turn // served.count % served.dp
        turn += 1
        pipeline.ranks[r].queue.append(one)
        pipeline.wake(one.arrival)
    for pipeline in pipelines:
        pipeline.advance(inf)
    return requests, pipelines
