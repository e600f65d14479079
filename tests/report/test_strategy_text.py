"""Strategies as text."""

from __future__ import annotations

from textwrap import dedent

from lts_bench.report.strategy_text import strategy_text
from lts_bench.space.strategy import Degrees


def test_a_dense_strategy():
    degrees = Degrees(replicas=2, pp=2, dp=1, tx=2, ty=4, ep=1, etp=8)
    text = strategy_text(degrees, {"dense.ffn.up": ("M", "N"), "dense.ffn.down": ("R", ""), "head": ("?", "R")}, 8)
    assert text == dedent(
        """\
        degree    size  level
        replicas  2
        pp        2     scale-out
        dp        1
        tx        2     scale-up (domains of 8)
        ty        4     scale-up (domains of 8)

        operator        tx  ty
        dense.ffn.up    M   N
        dense.ffn.down  R   ·
        head            ?   R
        """
    )


def test_experts_have_an_axis_of_their_own_and_axes_of_one_device_divide_nothing():
    degrees = Degrees(replicas=1, pp=1, dp=4, tx=1, ty=2, ep=2, etp=4)
    text = strategy_text(degrees, {"moe.router": ("R", "M"), "moe.experts.up": ("N",)})
    assert text == dedent(
        """\
        degree    size  level
        replicas  1
        pp        1
        dp        4
        tx        1
        ty        2
        ep        2
        etp       4

        operator        tx  ty  etp
        moe.router      -   M   -
        moe.experts.up  -   -   N
        """
    )


def test_open_degrees():
    text = strategy_text(None, {"head": ("", "")}, 8)
    assert "pp        ·\n" in text and "head      ·   ·\n" in text and "scale" not in text
