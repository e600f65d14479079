"""Blocks of the KV cache: taken, given back, shared between prompts with the same beginning, evicted."""

from __future__ import annotations

from lts_bench.cost.compiled import compiled
from lts_bench.serving.state import NEWER, NONE, OLDER, USERS, Simulation


@compiled
def blocks_of(tokens: int, block_tokens: int) -> int:
    """Blocks that hold so many tokens."""
    return (tokens + block_tokens - 1) // block_tokens


@compiled
def whole_tokens(sim: Simulation, request: int) -> int:
    """KV tokens of a request at its end; the last token of an answer needs none."""
    return sim.requests[request].prompt + sim.requests[request].output - 1 + sim.rules.overshoot


@compiled
def own_blocks(sim: Simulation, request: int, tokens: int) -> int:
    """Blocks that a request with KV of ``tokens`` has for itself."""
    needed = whole_tokens(sim, request) if sim.rules.reserve else tokens
    return blocks_of(needed, sim.rules.block_tokens) - sim.requests[request].held * sim.rules.reuse_blocks


@compiled
def available(sim: Simulation, rank: int) -> int:
    """Blocks that are free or hold prefixes that nobody uses."""
    return sim.ranks[rank].free + sim.ranks[rank].unused * sim.rules.reuse_blocks


@compiled
def take(sim: Simulation, rank: int, blocks: int) -> None:
    """Take blocks that are ``available``; unused prefixes are evicted, the longest unused first."""
    own, ring = sim.ranks[rank], sim.prefixes.shape[2] - 1
    while own.free < blocks:
        oldest = sim.prefixes[NEWER, rank, ring]
        _leave_ring(sim, rank, oldest)
        sim.prefixes[USERS, rank, oldest] = NONE
        own.free += sim.rules.reuse_blocks
    own.free -= blocks
    own.least = min(own.least, available(sim, rank))


@compiled
def _leave_ring(sim: Simulation, rank: int, block: int) -> None:
    older, newer = sim.prefixes[OLDER, rank, block], sim.prefixes[NEWER, rank, block]
    sim.prefixes[NEWER, rank, older], sim.prefixes[OLDER, rank, newer] = newer, older
    sim.ranks[rank].unused -= 1


@compiled
def _enter_ring(sim: Simulation, rank: int, block: int) -> None:
    ring = sim.prefixes.shape[2] - 1
    newest = sim.prefixes[OLDER, rank, ring]
    sim.prefixes[NEWER, rank, newest], sim.prefixes[OLDER, rank, block] = block, newest
    sim.prefixes[NEWER, rank, block], sim.prefixes[OLDER, rank, ring] = ring, block
    sim.ranks[rank].unused += 1


@compiled
def _cached(sim: Simulation, rank: int, request: int) -> tuple[int, int]:
    """(leading blocks of a prompt in the cache, those of them that nobody uses); one token is left to compute."""
    own, hits, unused = sim.requests[request], 0, 0
    if sim.rules.reuse_tokens > 0:
        most = min(own.shareable, (own.prompt + own.generated - 1) // sim.rules.reuse_tokens)
        while hits < most and sim.prefixes[USERS, rank, sim.ids[own.first_id + hits]] != NONE:
            unused += sim.prefixes[USERS, rank, sim.ids[own.first_id + hits]] == 0
            hits += 1
    return hits, unused


@compiled
def admit(sim: Simulation, rank: int, request: int) -> bool:
    """Take the blocks of a request's prompt, those in the cache shared; False where there is no room."""
    own = sim.requests[request]
    own.held, unused = _cached(sim, rank, request)
    needed = own_blocks(sim, request, own.prompt + own.generated)
    if needed > available(sim, rank) - unused * sim.rules.reuse_blocks:
        own.held = 0
        return False
    for index in range(own.first_id, own.first_id + own.held):
        if sim.prefixes[USERS, rank, sim.ids[index]] == 0:
            _leave_ring(sim, rank, sim.ids[index])
        sim.prefixes[USERS, rank, sim.ids[index]] += 1
    take(sim, rank, needed)
    own.prefilled = own.held * sim.rules.reuse_tokens
    return True


@compiled
def share(sim: Simulation, rank: int, request: int) -> None:
    """Offer the computed blocks of a prompt to others, up to the first one that another request offers already."""
    own = sim.requests[request]
    while own.held < own.shareable and sim.prefixes[USERS, rank, sim.ids[own.first_id + own.held]] == NONE:
        sim.prefixes[USERS, rank, sim.ids[own.first_id + own.held]] = 1
        own.held += 1


@compiled
def release(sim: Simulation, rank: int, request: int, tokens: int) -> None:
    """Give back the blocks of a request with KV of ``tokens``; shared ones stay until they are evicted."""
    own = sim.requests[request]
    sim.ranks[rank].free += own_blocks(sim, request, tokens)
    for index in range(own.first_id + own.held - 1, own.first_id - 1, -1):
        sim.prefixes[USERS, rank, sim.ids[index]] -= 1
        if sim.prefixes[USERS, rank, sim.ids[index]] == 0:
            _enter_ring(sim, rank, sim.ids[index])
    own.held = 0
