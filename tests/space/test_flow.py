"""What is said of letters agrees with the operators' equations; chains of operators are those of layers."""

from __future__ import annotations

import pytest

from lts_bench.cost import signatures
from lts_bench.space.flow import fits, sources, states

EQUATIONS = {
    "attention.qkv": signatures.PROJECTION,
    "ffn.down": signatures.PROJECTION,
    "stream": signatures.RESIDUAL,
    "attention.core": signatures.ATTENTION,
    "embed": signatures.EMBEDDING,
    "head": signatures.HEAD,
}
CASES = [(name, letter) for name, each in EQUATIONS.items() for letter in [*dict(each.decode.splits), "R"]]


@pytest.mark.parametrize(("operator", "letter"), CASES)
def test_letters_take_and_leave_the_states_of_the_equations_in_decode(operator: str, letter: str) -> None:
    equation = EQUATIONS[operator].decode
    taken, left = states(operator, letter)
    assert equation.left((letter,)) == (left,)
    assert equation.needed((letter,)) == (taken,)


def test_megatrons_pattern_fits_and_partial_sums_may_be_scattered() -> None:
    up, core, down = states("ffn.up", "N"), states("attention.core", "heads"), states("ffn.down", "K")
    assert fits(up, down)
    assert fits(up, core)
    assert fits(core, down)
    assert fits(down, states("stream", "R"))
    assert fits(down, states("stream", "M"))
    assert not fits(up, states("ffn.down", "M"))
    assert not fits(states("stream", "M"), up)


def test_operators_take_the_stream_or_what_the_one_before_leaves() -> None:
    latent = ["stream", "attention.q_down", "attention.q_up", "attention.kv_down", "attention.kv_up", "attention.core"]
    experts = ["attention.out", "router", "experts.up", "experts.down", "shared.up", "shared.down"]
    dense = ["stream", "attention.qkv", "attention.core", "attention.out", "ffn.up", "ffn.down"]
    assert sources(latent + experts) == [None, 0, 1, 0, 3, 4, 5, 0, 0, 8, 0, 10]
    assert sources([*dense, *dense, "embed", "head"]) == [None, 0, 1, 2, 0, 4, None, 6, 7, 8, 6, 10, None, None]
