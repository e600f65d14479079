from __future__ import annotations

from itertools import product

import pytest
from tiny_settings import dense_model, latent_model, moe_model

from lts_bench.cost.contraction import operand_layout, result_layout
from lts_bench.cost.graph import Edge, layer_block, model_blocks
from lts_bench.cost.layout import Layout
from lts_bench.cost.signatures import EMBEDDING, HEAD, PROJECTION, RESIDUAL, SAMPLING, Signature, equation
from lts_bench.space.operators import Operator, operators
from lts_bench.specs.config import load_model
from lts_bench.specs.model import Model

MODELS = [dense_model(), moe_model(), latent_model(), *map(load_model, ("qwen3-next-80b-a3b", "gpt-oss-120b"))]


def edge(model: Model, source: str, target: str, when: str = "always", features: int | None = None) -> Edge:
    found = [
        each
        for each in layer_block(model, model.layers[-1]).edges
        if (each.source, each.target, each.when) == (source, target, when) and features in (None, each.features)
    ]
    assert len(found) == 1
    return found[0]


def states(each: Edge, letters: str, prefill: bool) -> tuple[str, str]:
    """(left, needed) of one axis split on each of the letters of producer and consumer."""
    source, target = letters.split(">")
    return each.left((source,), prefill)[0], each.needed((target,), prefill)[0]


@pytest.mark.parametrize(
    ("signature", "letter", "needed", "left"),
    [
        (PROJECTION, "M", "M", "M"),
        (PROJECTION, "K", "N", "P"),
        (PROJECTION, "N", "R", "N"),
        (PROJECTION, "R", "R", "R"),
        (RESIDUAL, "M", "M", "M"),
        (RESIDUAL, "N", "N", "N"),
        (HEAD, "vocabulary", "R", "N"),
        (HEAD, "hidden", "N", "P"),
        (HEAD, "M", "M", "M"),
        (EMBEDDING, "vocabulary", "R", "P"),
        (EMBEDDING, "hidden", "R", "N"),
        (EMBEDDING, "M", "M", "M"),
        (SAMPLING, "vocabulary", "R", "R"),
    ],
)
def test_one_axis(signature: Signature, letter: str, needed: str, left: str) -> None:
    for prefill in (True, False):
        assert signature.phase(prefill).needed((letter,)) == (needed,)
        assert signature.phase(prefill).left((letter,)) == (left,)


def test_weight_stationary_on_two_axes() -> None:
    # Pope et al.: inputs are split on x, outputs on y, where they are partial over x.
    assert PROJECTION.prefill.needed(("K", "N")) == ("N", "R")
    assert PROJECTION.prefill.left(("K", "N")) == ("P", "N")
    assert PROJECTION.prefill.needed(("N", "K")) == ("R", "N")


@pytest.mark.parametrize(
    ("letters", "prefill", "decode"),
    [
        ("N>heads", ("N", "N"), ("N", "N")),
        ("M>batch", ("M", "M"), ("M", "M")),
        ("M>kv_sequence", ("M", "M"), ("M", "R")),  # a prompt's queries are split; a new token meets the whole cache
        ("K>R", ("P", "R"), ("P", "R")),
    ],
)
def test_into_attention(letters: str, prefill: tuple[str, str], decode: tuple[str, str]) -> None:
    into = edge(dense_model(), "attention.qkv", "attention.core")
    assert (states(into, letters, True), states(into, letters, False)) == (prefill, decode)


@pytest.mark.parametrize(
    ("letter", "prefill", "decode"),
    [("heads", "N", "N"), ("batch", "M", "M"), ("kv_sequence", "M", "P"), ("R", "R", "R")],
)
def test_out_of_attention(letter: str, prefill: str, decode: str) -> None:
    for model in (dense_model(), latent_model()):
        when = ("always", "always") if model.name == "tiny" else ("prefill", "decode")
        for name, phase, state in zip(when, (True, False), (prefill, decode), strict=True):
            target = "attention.kv_up" if name == "decode" else "attention.out"
            assert edge(model, "attention.core", target, name).left((letter,), phase) == (state,)


CORE, KV_UP, KV_DOWN, Q_UP = (f"attention.{name}" for name in ("core", "kv_up", "kv_down", "q_up"))


@pytest.mark.parametrize(
    ("source", "target", "features", "letters", "expected"),
    [
        (Q_UP, CORE, 192, "N>heads", ("N", "N")),
        (Q_UP, CORE, 192, "M>batch", ("M", "M")),
        (KV_DOWN, KV_UP, 40, "M>N", ("M", "R")),  # the one gather of latents
        (KV_DOWN, KV_UP, 40, "K>K", ("P", "N")),
        (KV_UP, CORE, 256, "N>heads", ("N", "N")),
        (KV_UP, CORE, 256, "K>R", ("P", "R")),
        (KV_UP, CORE, 256, "M>kv_sequence", ("M", "R")),  # every query sees all keys
        (KV_UP, CORE, 40, "N>heads", ("R", "R")),  # latents have no heads
        (KV_UP, CORE, 40, "N>batch", ("R", "M")),
        (KV_UP, CORE, 40, "K>kv_sequence", ("N", "M")),
        (CORE, "attention.out", 128, "heads>K", ("N", "N")),
    ],
)
def test_latent_attention_of_prompts(
    source: str, target: str, features: int, letters: str, expected: tuple[str, str]
) -> None:
    assert states(edge(latent_model(), source, target, "prefill", features), letters, True) == expected


@pytest.mark.parametrize(
    ("source", "target", "letters", "expected"),
    [
        (Q_UP, KV_UP, "N>N", ("N", "N")),
        (Q_UP, KV_UP, "N>K", ("N", "R")),  # its heads' features are contracted, the latent's are made
        (KV_UP, CORE, "N>heads", ("N", "N")),
        (KV_UP, CORE, "K>heads", ("P", "N")),  # a part of every head's latent
        (KV_UP, CORE, "M>kv_sequence", ("M", "R")),
        (KV_DOWN, CORE, "R>heads", ("R", "R")),
        (KV_DOWN, CORE, "M>batch", ("M", "M")),
        (CORE, KV_UP, "heads>N", ("N", "N")),
        (CORE, KV_UP, "kv_sequence>N", ("P", "N")),
        (CORE, KV_UP, "heads>K", ("N", "R")),  # whole heads become parts of each: not for nothing
        (KV_UP, "attention.out", "N>K", ("N", "N")),
        (KV_UP, "attention.out", "K>K", ("P", "N")),
    ],
)
def test_latent_attention_of_new_tokens(source: str, target: str, letters: str, expected: tuple[str, str]) -> None:
    assert states(edge(latent_model(), source, target, "decode"), letters, False) == expected


def ends(model: Model) -> list[tuple[Edge, Operator, Operator]]:
    known = {operator.key: operator for operator in operators(model)}
    return [
        (each, known[block.key(each.source)], known[block.key(each.target, target=True)])
        for block in model_blocks(model)
        for each in block.edges
    ]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_axes_do_not_see_each_other(model: Model) -> None:
    for each, source, target in ends(model):
        for prefill in (True, False):
            for x, y in product(source.letters, repeat=2):
                assert each.left((x, y), prefill) == each.left((x,), prefill) + each.left((y,), prefill)
            for x, y in product(target.letters, repeat=2):
                assert each.needed((x, y), prefill) == each.needed((x,), prefill) + each.needed((y,), prefill)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_partial_sums_are_never_needed_and_nothing_is_split_where_none_is(model: Model) -> None:
    for each, source, target in ends(model):
        for prefill in (True, False):
            assert each.left(("R",), prefill) == each.needed(("R",), prefill) == ("R",)
            assert all(each.needed((letter,), prefill)[0] in "MNR" for letter in target.letters)
            assert all(each.left((letter,), prefill)[0] in "MNRP" for letter in source.letters)


def test_the_rule_of_contractions() -> None:
    words, split = ("mk", "kn"), {"k": (1,), "n": (0, 2)}
    assert operand_layout("kn", split) == Layout(((1,), (0, 2)))
    assert result_layout(words, "mn", split) == Layout(((), (0, 2)), frozenset({1}))
    assert result_layout(words, "mn", split, frozenset({3})).pending == {1, 3}
    assert equation("mk,kn->mn", K="k").left(("K", "M")) == ("P", "R")
