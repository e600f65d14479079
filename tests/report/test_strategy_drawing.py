"""Strategies as pictures: a colour for everything that can be chosen, the same pixels from the same strategy."""

from __future__ import annotations

import numpy as np
from matplotlib.colors import to_rgb

from lts_bench.report.strategy_drawing import DIMENSIONS, HEIGHT, LEVELS, WIDTH, strategy_image
from lts_bench.space.operators import CORE, LINEAR_CORE, LOOKUP, MATMUL, ROUTER, STREAM
from lts_bench.space.spans import SCALE_OUT, SCALE_UP
from lts_bench.space.strategy import Degrees

DEGREES = Degrees(replicas=1, pp=2, dp=1, tx=2, ty=4, ep=2, etp=4)
SHARDING = {"moe.attention.core": ("heads", "batch"), "moe.experts.up": ("N",), "head": ("vocabulary", "M")}


def pixels(image: np.ndarray, colour: str) -> int:
    return int((image == np.round(255 * np.array(to_rgb(colour)))).all(axis=2).sum())


def test_every_letter_has_a_colour_of_its_own():
    letters = {*MATMUL, *CORE, *LINEAR_CORE, *STREAM, *ROUTER, *LOOKUP}
    assert letters <= DIMENSIONS.keys()
    colours = [colour for _, _, colour in DIMENSIONS.values()] + list(LEVELS.values())
    assert len(set(colours)) == len(colours)


def test_the_colours_are_those_of_what_is_split():
    image = strategy_image(DEGREES, SHARDING, 8)
    shown = {letter for letter, (_, _, colour) in DIMENSIONS.items() if letter and pixels(image, colour) > 1_000}
    assert shown == {"heads", "batch", "N", "vocabulary", "M", "-"}
    assert pixels(image, LEVELS[SCALE_UP]) > 1_000 and pixels(image, LEVELS[SCALE_OUT]) > 1_000


def test_without_a_cluster_no_level_is_coloured():
    image = strategy_image(DEGREES, SHARDING)
    assert not any(pixels(image, colour) for colour in LEVELS.values())


def test_the_same_strategy_gives_the_same_pixels_of_a_fixed_size():
    image = strategy_image(DEGREES, SHARDING, 8)
    assert image.shape == (HEIGHT, WIDTH, 3) and image.dtype == np.uint8
    assert image.tobytes() == strategy_image(DEGREES, SHARDING, 8).tobytes()
    assert strategy_image(None, {f"dense.{i}": ("", "") for i in range(60)}).shape == image.shape


def test_a_change_of_one_letter_is_seen():
    other = strategy_image(DEGREES, SHARDING | {"moe.experts.up": ("K",)}, 8)
    assert pixels(other, DIMENSIONS["K"][2]) > 1_000 and not pixels(other, DIMENSIONS["N"][2])
