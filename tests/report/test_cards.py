"""Cards: what they measure, who is admitted, and the page made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from lts_bench import make_task
from lts_bench.exact.optimum import optimum
from lts_bench.report import cards_page
from lts_bench.report.cards import (
    Card,
    Deck,
    Spread,
    admitted,
    deck_of,
    encode_deck,
    make_card,
    read_deck,
    unlike_megatron,
)
from lts_bench.space.strategy import Degrees, Strategy, complete_sharding, even_stages
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite, list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.specs.workload import Slo, Workload

ONE = Spread(1.0, 1.0)
SPEC = TaskSpec("m/c/chat", "m", "c", Workload(1, 1, Slo(ttft_ms=1.0)), why="a test | of text")
SMALL = "llama-3.1-8b/h100x8/chat"


def made(**change: Any) -> Card:
    card = Card(
        task=SPEC.name, digest="d", log10_size=10.04, degrees=1234, legal=0.5, fits=0.25, feasible=0.00125,
        goodput_per_npu=1234.5678, certified=True, optimum="replicas=1 pp=1 dp=1 tp=2x4 ep=1 etp=8",
        unlike_megatron="core batch,heads", over_megatron=1.5, random=0.3, evolution=0.9, recipes=(12, None),
        moved=Spread(0.9, 1.1), megatron=Spread(0.5, 0.6), replayed=Spread(0.97, 1.0),
    )  # fmt: skip
    return msgspec.structs.replace(card, **change)


def suite(**change: Any) -> Suite:
    return msgspec.structs.replace(Suite("mine", "Two words.", ("random",), 3, "e1k", (SPEC,), "core"), **change)


@pytest.mark.parametrize(
    ("change", "core", "hard"),
    [
        ({"over_megatron": 1.06, "random": 1.0, "evolution": 0.95}, True, True),
        ({"over_megatron": 1.06, "random": 1.0, "evolution": 0.96}, True, False),
        ({"over_megatron": 1.05, "random": 0.85, "evolution": 0.9}, True, True),
        ({"over_megatron": 1.05, "random": 0.86, "evolution": 0.9}, False, False),
        ({"over_megatron": None, "random": 1.0, "evolution": 1.0}, True, False),
    ],
)
def test_the_admission_test(change: dict[str, Any], core: bool, hard: bool) -> None:
    card = made(**change)
    assert (admitted(card, "core"), admitted(card, "hard"), admitted(card, None)) == (core, hard, True)


def test_a_card_as_a_line_of_the_page() -> None:
    section = cards_page.suite_section(suite(), Deck("mine", "3", (made(),)))
    title, about, *_, line = section.strip().splitlines()
    assert title == "## mine"
    assert "Two words. 3 seeds, budget e1k. Admission test: core." in section
    assert line == (
        "| **m/c/chat**<br>a test \\| of text | 10^10.0, 1,234 degrees | 50 % | 25 % | 0.125 % | 1235 | "
        "replicas=1 pp=1 dp=1 tp=2x4 ep=1 etp=8 | core batch,heads | 1.50 | 0.30 | 0.90 | 12, – | yes | 0.90–1.10 | "
        "0.50–0.60 | 0.97–1.00 |"
    )
    assert about == ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"over_megatron": None}, "| – | 0.30 | 0.90 |"),
        ({"certified": False}, "| 1235 (bound) |"),
        ({"over_megatron": 1.0, "random": 0.99}, "| no |"),
    ],
)
def test_what_a_line_says_of_other_cards(change: dict[str, Any], told: str) -> None:
    assert told in cards_page.suite_section(suite(), Deck("mine", "3", (made(**change),)))


def test_without_a_test_nobody_is_called_admitted() -> None:
    section = cards_page.suite_section(suite(admission=None), Deck("mine", "3", (made(),)))
    assert "No admission test." in section
    assert "| 12, – | – | 0.90–1.10 |" in section


def test_a_deck_is_kept_and_read_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lts_bench.report.cards.deck_file", lambda name: tmp_path / f"{name}.json")
    deck = deck_of(suite(), [made(task="other"), made()])
    (tmp_path / "mine.json").write_bytes(encode_deck(deck))
    assert read_deck("mine") == deck
    assert [card.task for card in deck.cards] == [SPEC.name]
    (tmp_path / "broken.json").write_text("{}")
    with pytest.raises(InputError, match=r"broken\.json"):
        read_deck("broken")
    with pytest.raises(InputError, match="lts-bench cards none"):
        read_deck("none")


def test_suites_without_cards_are_refused() -> None:
    with pytest.raises(InputError, match="written built-in suite"):
        cards_page.built_in(["train"])


def test_only_what_differs_from_megatrons_pattern_is_told() -> None:
    task = make_task(model="deepseek-v3", cluster="h100x256", workload="isl=1024,osl=512")
    degrees = Degrees(16, 1, 1, 2, 8, 16, 1)
    pattern = complete_sharding({}, task.space.operators, 2, 8)

    def told(**change: tuple[str, ...]) -> str:
        sharding = pattern | {key.replace("__", "."): choice for key, choice in change.items()}
        return unlike_megatron(task, Strategy(degrees, sharding, even_stages(61, 1)))

    assert told() == "nothing"
    assert told(moe__router=("M", "M")) == "router M,M"
    assert told(**{"moe__attention__core": ("batch", "heads")}) == "moe.core batch,heads"
    both = {f"{kind}__attention__core": ("batch", "heads") for kind in ("dense", "moe")}
    assert told(**both) == "core batch,heads"


@pytest.fixture(scope="module")
def card() -> Card:
    return make_card(next(spec for spec in load_suite("smoke").tasks if spec.name == SMALL))


class TestMeasured:
    """A card of a small task against the parts it is made of."""

    def test_it_is_the_stored_one(self, card: Card) -> None:
        """To the digits that arithmetic on another machine may change."""
        stored = next(each for each in read_deck("smoke").cards if each.task == SMALL)
        for field in ("log10_size", "legal", "fits", "feasible", "goodput_per_npu", "random", "evolution"):
            assert getattr(card, field) == pytest.approx(getattr(stored, field), rel=1e-4)
        assert (card.digest, card.degrees, card.recipes) == (stored.digest, stored.degrees, stored.recipes)

    def test_its_optimum_is_the_certified_one(self, card: Card) -> None:
        found = optimum(
            make_task(model="llama-3.1-8b", cluster="h100x8", workload="isl=1024,osl=512,ttft_ms=500,tpot_ms=20")
        )
        assert card.goodput_per_npu == pytest.approx(found.goodput_per_npu, rel=1e-5)
        assert card.certified

    def test_nothing_is_better_than_the_optimum(self, card: Card) -> None:
        assert max(card.random, card.evolution, card.megatron.most, card.replayed.most) <= 1.00001
        assert card.over_megatron is not None and card.over_megatron >= 0.99999

    def test_shares_are_in_order(self, card: Card) -> None:
        assert 0 < card.feasible <= card.fits <= 1


@pytest.mark.parametrize("name", list_suites(generated=False))
class TestStored:
    """What lies beside the built-in suites."""

    def test_every_task_has_a_card_and_passes_its_suites_test(self, name: str) -> None:
        suite, deck = load_suite(name), read_deck(name)
        assert [card.task for card in deck.cards] == [spec.name for spec in suite.tasks]
        assert [card.task for card in deck.cards if not admitted(card, suite.admission)] == []

    def test_every_optimum_is_certified(self, name: str) -> None:
        assert all(card.certified for card in read_deck(name).cards)


def test_the_page_is_what_the_cards_give(pytestconfig: pytest.Config) -> None:
    page = pytestconfig.rootpath / "docs" / "suites.md"
    assert page.read_text(encoding="utf-8") == cards_page.cards_page()
