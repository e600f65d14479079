from __future__ import annotations

from pathlib import Path

import pytest

from lts_bench.registry import describe_agent, is_built_in
from lts_bench.results.card import encode_card, read_card

CARDS = sorted((Path(__file__).parents[2] / "results").glob("*@*/card.yaml"))


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.parent.name)
def test_a_committed_card_is_of_its_folders_agent(path: Path, tmp_path: Path) -> None:
    card = read_card(path)
    assert card.label == path.parent.name
    copy = tmp_path / "card.yaml"
    copy.write_text(encode_card(card))
    assert read_card(copy) == card
    info = describe_agent(card.agent)
    assert is_built_in(info)
    if info.version == card.version:
        assert (info.origin, info.track) == (card.source, card.track)
