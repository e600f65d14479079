"""How the choices of operators fit together: in which states they take and leave activations on a mesh axis.

A state is M (tokens are split), N (features are split), R (whole on every device) or P (partial sums). That choices do
not fit is legal and costs collectives; this says nothing of how much.
"""

from __future__ import annotations

from typing import Final

MATMUL_STATES = {"M": ("M", "M"), "K": ("N", "P"), "N": ("R", "N"), "R": ("R", "R")}
STATES: Final = {
    "stream": {"M": ("M", "M"), "N": ("N", "N"), "R": ("R", "R")},
    "attention.core": {"heads": ("N", "N"), "batch": ("M", "M"), "kv_sequence": ("R", "P"), "R": ("R", "R")},
    "embed": {"vocabulary": ("R", "P"), "hidden": ("R", "N"), "M": ("M", "M"), "R": ("R", "R")},
    "head": {"vocabulary": ("R", "N"), "hidden": ("N", "P"), "M": ("M", "M"), "R": ("R", "R")},
}
"""States that each letter of an operator takes and leaves in decode; those of all other operators are a product's."""
FITTING: Final = {"M": ("M",), "N": ("N",), "R": ("R",), "P": ("R", "M")}
"""States in which what was left in a state is had at the least cost; partial sums are added up, whole or by tokens."""
ON_THE_STREAM: Final = ("qkv", "q_down", "kv_down", "up", "router")
"""Last names of operators that take the residual stream; all others take what the one before them leaves."""


def states(operator: str, letter: str) -> tuple[str, str]:
    """Return the state in which an operator split by a letter takes activations, and that in which it leaves them."""
    return STATES.get(operator, MATMUL_STATES)[letter]


def fits(before: tuple[str, str], after: tuple[str, str]) -> bool:
    """Whether an operator that takes and leaves the states ``after`` takes what one of ``before`` leaves."""
    return after[0] in FITTING[before[1]]


def sources(operators: list[str]) -> list[int | None]:
    """Return the place of the operator whose result each takes, None for the stream, the embedding and the head.

    Args:
        operators: names without layer kinds, in the order of `lts_bench.space.decisions.Space.names`.
    """
    found: list[int | None] = []
    stream = 0
    for place, name in enumerate(operators):
        if name in ("stream", "embed", "head"):
            stream = place
            found.append(None)
        else:
            found.append(stream if name.rpartition(".")[2] in ON_THE_STREAM else place - 1)
    return found
