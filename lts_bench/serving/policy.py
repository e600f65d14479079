"""How an engine serves: admission, batching, KV cache, routing, speculation."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

from lts_bench.specs.engine import Engine
from lts_bench.specs.failure import InputError

ROUTERS = ("round_robin", "least_loaded")


@dataclass(frozen=True)
class Policy:
    """Rules of one engine and its router.

    Attributes:
        kv_tokens: KV cache of a data-parallel rank.
        chunked: prompts are prefilled in parts beside the rows that decode; else whole, in steps of their own, first.
        step_tokens: most tokens of a step: of prompts, and where chunked of decoding rows, too. A longer prompt that is
            not chunked has a step for itself.
        max_sequences: most sequences of a rank in one microbatch.
        block_tokens: tokens of a KV block.
        reserve: whether room for the whole answer is taken at admission; else blocks are taken as a sequence grows, and
            the sequence admitted last makes way, to be prefilled again, when there are none left.
        coordinated: while others decode, ranks wait with prompts until there are as many as ranks.
        router: one of ``ROUTERS``: how requests find a replica and rank; the least loaded has the fewest requests.
        accepted_tokens: tokens that a sequence gains in a decode step: 1 without speculation.
        drafted_tokens: tokens that a decode step verifies beside the next one.
        prefix_reuse: whether blocks of prompts that are still in the cache are used again.
        prefilled: prompts come with their KV cache, as from a prefill pool: they join at once, and their first token is
            that of the next decode step.
    """

    kv_tokens: int
    chunked: bool = False
    step_tokens: int = 8192
    max_sequences: int = 2048
    block_tokens: int = 16
    reserve: bool = False
    coordinated: bool = False
    router: str = "round_robin"
    accepted_tokens: float = 1.0
    drafted_tokens: int = 0
    prefix_reuse: bool = False
    prefilled: bool = False

    def __post_init__(self) -> None:
        for name in ("step_tokens", "max_sequences", "block_tokens"):
            if getattr(self, name) < 1:
                raise InputError("must be ≥ 1", field=name, value=getattr(self, name))
        if self.drafted_tokens < 0 or not 1 <= self.accepted_tokens <= 1 + self.drafted_tokens:
            rule = f"must be from 1 to 1 + drafted_tokens = {1 + self.drafted_tokens}"
            raise InputError(rule, field="accepted_tokens", value=self.accepted_tokens)
        if self.router not in ROUTERS:
            raise InputError("unknown router", field="router", value=self.router, legal=ROUTERS)

    @classmethod
    def of(cls, engine: Engine, kv_tokens: int) -> Policy:
        """What an engine profile says."""
        return cls(
            kv_tokens=kv_tokens,
            chunked=engine.mixed_prefill,
            step_tokens=engine.max_prefill_tokens,
            max_sequences=engine.max_batch,
            reserve=engine.kv_reservation == "full",
            coordinated=engine.coordinated_admission,
        )

    @property
    def kv_blocks(self) -> int:
        """Whole blocks of a rank."""
        return floor(self.kv_tokens / self.block_tokens)

    @property
    def rows(self) -> int:
        """Most rows of a rank's decode step: every sequence has one, and one for each drafted token."""
        return self.max_sequences * (1 + self.drafted_tokens)

    @property
    def overshoot_tokens(self) -> int:
        """Tokens that the last decode step of a sequence may add beyond its answer."""
        return ceil(self.accepted_tokens) - 1
