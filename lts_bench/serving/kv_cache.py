"""Blocks of the KV cache: taken, given back, shared between prompts with the same beginning, evicted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.compiled import compiled
from lts_bench.serving.state import NEWER, NONE, OLDER, USERS, Record, Rules, Simulation


@compiled
def blocks_of(tokens: int, block_tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return (tokens + block_tokens - 1) // block_tokens


@compiled
def whole_tokens(rules: Rules, request: Record) -> int:
    """KV tokens of a ``REQUEST`` at its end; the last token of an answer needs none."""
    tokens: int = request.prompt + request.output - 1 + rules.overshoot
    return tokens


@compiled
def own_blocks(rules: Rules, request: Record, tokens: int) -> int:
    """Blocks that a ``REQUEST`` with KV of ``tokens`` has for itself."""
    needed = whole_tokens(rules, request) if rules.reserve else tokens
    own: int = blocks_of(needed, rules.block_tokens) - request.held * rules.reuse_blocks
    return own


@compiled
def available(rules: Rules, rank: Record) -> int:
    """Blocks of a ``RANK`` that are free or hold prefixes that nobody uses."""
    blocks: int = rank.free + rank.unused * rules.reuse_blocks
    return blocks


@compiled
def take(sim: Simulation, rank: int, blocks: int) -> None:
    """Take blocks that are ``available``; unused prefixes are evicted, the longest unused first."""
    own, prefixes = sim.ranks[rank], sim.prefixes[:, rank]
    while own.free < blocks:
        oldest = prefixes[NEWER, -1]
        _leave_ring(own, prefixes, oldest)
        prefixes[USERS, oldest] = NONE
        own.free += sim.rules.reuse_blocks
    own.free -= blocks
    own.least = min(own.least, available(sim.rules, own))


@compiled
def _leave_ring(rank: Record, prefixes: NDArray[np.int32], block: int) -> None:
    """(3, ids + 1) ``prefixes`` are the rank's."""
    older, newer = prefixes[OLDER, block], prefixes[NEWER, block]
    prefixes[NEWER, older], prefixes[OLDER, newer] = newer, older
    rank.unused -= 1


@compiled
def _enter_ring(rank: Record, prefixes: NDArray[np.int32], block: int) -> None:
    ring, newest = prefixes.shape[1] - 1, prefixes[OLDER, -1]
    prefixes[NEWER, newest], prefixes[OLDER, block] = block, newest
    prefixes[NEWER, block], prefixes[OLDER, ring] = ring, block
    rank.unused += 1


@compiled
def admit(sim: Simulation, rank: int, request: int) -> bool:
    """Take the blocks of a request's prompt, those in the cache shared; False where there is no room.

    At least one token is left to compute.
    """
    rules, own, target = (
        sim.rules,
        sim.requests[request],
        sim.requests[request].prompt + sim.requests[request].generated,
    )
    users, unused = sim.prefixes[USERS, rank], 0
    ids = sim.ids[own.first_id : own.first_id + min(own.shareable, (target - 1) // max(rules.reuse_tokens, 1))]
    own.held = 0
    while own.held < len(ids) and users[ids[own.held]] != NONE:
        unused += users[ids[own.held]] == 0
        own.held += 1
    needed = own_blocks(rules, own, target)
    if needed > available(rules, sim.ranks[rank]) - unused * rules.reuse_blocks:
        own.held = 0
        return False
    for block in ids[: own.held]:
        if users[block] == 0:
            _leave_ring(sim.ranks[rank], sim.prefixes[:, rank], block)
        users[block] += 1
    take(sim, rank, needed)
    own.prefilled = own.held * rules.reuse_tokens
    return True


@compiled
def share(sim: Simulation, rank: int, request: int) -> None:
    """Offer the computed blocks of a prompt to others, up to the first one that another request offers already."""
    own, users = sim.requests[request], sim.prefixes[USERS, rank]
    while own.held < own.shareable and users[sim.ids[own.first_id + own.held]] == NONE:
        users[sim.ids[own.first_id + own.held]] = 1
        own.held += 1


@compiled
def release(sim: Simulation, rank: int, request: int, tokens: int) -> None:
    """Give back the blocks of a request with KV of ``tokens``; shared ones stay until they are evicted."""
    own, users = sim.requests[request], sim.prefixes[USERS, rank]
    sim.ranks[rank].free += own_blocks(sim.rules, own, tokens)
    for index in range(own.first_id + own.held - 1, own.first_id - 1, -1):
        users[sim.ids[index]] -= 1
        if users[sim.ids[index]] == 0:
            _enter_ring(sim.ranks[rank], sim.prefixes[:, rank], sim.ids[index])
    own.held = 0
