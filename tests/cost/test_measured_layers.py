"""The collectives and weights of the task's own graph against what compilers emitted for the same sharded layers."""

from __future__ import annotations

import json
from collections import Counter
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny_settings import cost_model, degrees, setting, strategy

from lts_bench.cost import attention, edges
from lts_bench.cost.collectives import Collective, seconds
from lts_bench.cost.conversion import conversion_moves, local_bytes, state_letters
from lts_bench.cost.edges import MeshPrices, state_index
from lts_bench.cost.graph import Block, Edge
from lts_bench.cost.nodes import WEIGHTS, View
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.cost.signatures import HEAD, SAMPLING
from lts_bench.space.operators import Operator
from lts_bench.space.strategy import Degrees, Strategy
from lts_bench.specs.layers import Attention, DenseFfn, Layer, MoeFfn
from lts_bench.specs.model import Model

CASES = Path(__file__).parents[3] / "shared/data/sharding/cases.json"
Sent = tuple[str, int, float]
"""(kind, devices, bytes) of a collective as the cases count them."""

pytestmark = pytest.mark.skipif(not CASES.exists(), reason="the measured cases are not in this checkout")


@pytest.fixture(autouse=True)
def four_bytes_an_element(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (attention, edges):
        monkeypatch.setattr(module, "ACTIVATION_BYTES", 4.0)


def expected(case: str) -> dict[str, Any]:
    cases = json.loads(CASES.read_text(encoding="utf-8"))["cases"]
    found: dict[str, Any] = next(each["expect"] for each in cases if each["id"] == case)
    return found


def added(sent: list[Sent]) -> dict[tuple[str, int], float]:
    """Bytes by kind and devices: gate and up, or keys and values, may share a collective."""
    total: Counter[tuple[str, int]] = Counter()
    for kind, group, n in sent:
        total[kind, group] += n
    return dict(total)


def measured(case: str) -> dict[tuple[str, int], float]:
    return added([(each["kind"], each["group"], each["n_bytes"]) for each in expected(case)["collectives"]])


class Run:
    """One block of a model under a strategy in one phase."""

    def __init__(self, model: Model, d: Degrees, chosen: Strategy, tokens: int, batch: int = 0, name: str = "") -> None:
        place = setting(model, f"h100x{max(d.stage, 8)}", f"isl={tokens},osl=2")
        self.tables = cost_model(place, d).tables
        ((self.prices, _),) = self.tables.pricing.meshes()
        self.block: Block = next(b for b in self.tables.blocks if (b.name == name if name else b.layer is not None))
        self.chosen = chosen
        self.phase = FIRST_RUNG + place.phases.batches.tolist().index(batch) if batch else PREFILL

    def ends(self, edge: Edge) -> tuple[Operator, Operator]:
        operator = self.tables.pricing.operator
        return operator(self.block, edge.source), operator(self.block, edge.target, target=True)

    def column(self, operator: Operator) -> int:
        choices = self.prices.view(operator).choices
        return choices.index(self.chosen.sharding[operator.key][-self.prices.mesh.axes :])

    def converted(self, *targets: str) -> list[Sent]:
        """The collectives on the edges into the targets, by default on all."""
        found = [edge for edge in self.block.edges if not targets or edge.target in targets]
        return [each for edge in found for each in self._converted(edge)]

    def _converted(self, edge: Edge) -> list[Sent]:
        """The collectives on an edge; partial sums of gate and up are reduced before their product."""
        prefill = self.phase == PREFILL
        if edge.when not in ("always", "prefill" if prefill else "decode"):
            return []
        source, target = self.ends(edge)
        left, needed = self.prices.states(edge, source, target, prefill)
        start, end = left[self.column(source)], needed[self.column(target)]
        letters = state_letters(self.prices.mesh.axes)
        if not edge.summed_features or "P" not in letters[start]:
            return self.moved(edge.features, start, end)
        between = [index for index, each in enumerate(letters) if "P" not in each]
        summed, after = (self.prices.conversions(each) for each in (edge.summed_features, edge.features))
        best = min(between, key=lambda index: (summed[start, index] + after[index, end])[0, self.phase])
        return self.moved(edge.summed_features, start, best) + self.moved(edge.features, best, end)

    def moved(self, features: int, start: int, end: int, sequences: bool = False) -> list[Sent]:
        mesh, tensor = self.prices.mesh, self.prices.activation(features, sequences=sequences)
        found = []
        for move, _ in conversion_moves(mesh, tensor, start, end, self.phase):
            if move.kind is not None:
                n = local_bytes(mesh, move.sized_by, tensor)[0, self.phase]
                found.append((move.kind.label, int(mesh.product(move.axes)[0]), float(n)))
        return found

    def own(self, monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
        """The collectives of the operators themselves."""
        return [each for operator in self.charged() for each in self._own(operator, monkeypatch)]

    def charged(self) -> list[Operator]:
        return [self.ends(edge)[edge.charged == "target"] for edge in self.block.edges if edge.charged != "none"]

    def _own(self, operator: Operator, monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
        column, found, collective = self.column(operator), [], View.collective

        def recorded(view: View, kind: Collective, n: np.ndarray, *letters: str) -> np.ndarray:
            sizes = zip(view.mesh.sizes[0], view.choices[column], strict=True)
            group = prod(int(size) for size, letter in sizes if letter in letters)
            shape = len(view.mesh), len(view.choices), len(view.setting.phases)
            amount = float(np.broadcast_to(n, shape)[0, column, self.phase])
            found.extend([(kind.label, group, amount)] if group > 1 and amount else [])
            return collective(view, kind, n, *letters)

        with monkeypatch.context() as patch:
            patch.setattr(View, "collective", recorded)
            MeshPrices(self.prices.setting, self.prices.mesh, self.prices.rules).node(self.block, operator)
        return found

    def weights(self) -> float:
        nodes = [(operator, self.prices.node(self.block, operator)[1]) for operator in self.charged()]
        return sum(float(memory[0, self.column(operator), WEIGHTS]) for operator, memory in nodes)


def run_of(
    layer: Layer, mesh: tuple[int, int], tokens: int, letters: dict[str, str], *, hidden: int = 512, **of: Any
) -> Run:
    model, d = Model("layer", hidden, 4096, (layer,)), degrees(tp=mesh[0] * mesh[1], tx=mesh[0])
    return Run(model, d, strategy(model, d, **letters), tokens, **of)


GQA, MHA, MQA = Attention(32, 8, 64), Attention(64, 64, 64), Attention(32, 1, 64)
MLP = DenseFfn(2048)
TOKENS = dict.fromkeys(("stream", "attention__qkv", "attention__out", "ffn__up", "ffn__down"), "M")
RING = {**TOKENS, "attention__core": "kv_sequence"}


@pytest.mark.parametrize(
    ("case", "layer", "hidden", "tokens", "tp", "letters"),
    [
        ("layer-tp", Layer(GQA, MLP), 512, 512, 8, {}),
        ("layer-dp-tp", Layer(GQA, MLP), 512, 128, 4, {}),
        ("layer-dp8-tp64", Layer(MHA, DenseFfn(8192)), 1024, 128, 64, {}),
        ("attn-tp", Layer(GQA, None), 512, 512, 8, {}),
        ("attn-tp-sp", Layer(GQA, None), 512, 512, 8, {"stream": "M"}),
        ("attn-dp-tp", Layer(GQA, None), 512, 128, 4, {}),
        ("attn-cp-gather", Layer(GQA, None), 512, 512, 8, RING),
        ("mlp-dp", Layer(None, MLP), 512, 256, 8, TOKENS),
        ("mlp-dp-tp", Layer(None, MLP), 512, 128, 4, {}),
        ("mlp-tp1024", Layer(None, DenseFfn(16384)), 1024, 256, 1024, {}),
    ],
)
def test_whole_layers(
    case: str, layer: Layer, hidden: int, tokens: int, tp: int, letters: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(layer, (1, tp), tokens, letters, hidden=hidden)
    assert added([*run.own(monkeypatch), *run.converted()]) == measured(case)
    assert run.weights() * 2 == expected(case)["weight_bytes_per_device"]


def test_weight_stationary_on_two_axes() -> None:
    # A prompt so long that bytes decide: two reduce-scatters and one all-gather, not an all-reduce of gate and up.
    letters = {"stream": "R,N", "ffn__up": "N,K", "ffn__down": "K,N"}
    run = run_of(Layer(None, MLP), (2, 4), 256 * 64, letters)
    assert added(run.converted()) == {key: 64 * n for key, n in measured("mlp-2dws-rs").items()}
    assert run.weights() * 2 == expected("mlp-2dws-rs")["weight_bytes_per_device"]


def test_columns_then_tokens() -> None:
    run = run_of(Layer(None, MLP), (1, 8), 256, {"ffn__up": "N", "ffn__down": "M"})
    assert added(run.converted("ffn.down")) == measured("mlp-upN-downM")
    assert run.weights() * 2 == expected("mlp-upN-downM")["weight_bytes_per_device"]


def test_norm_of_split_features(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of(Layer(None, MLP), (1, 8), 256, {"stream": "N"})
    assert added(run.own(monkeypatch)) == measured("norm-D")


@pytest.mark.parametrize(
    ("case", "mixer", "letters", "targets"),
    [
        ("dec-kvseq-flash", GQA, {"attention__core": "kv_sequence", "attention__out": "R"}, ("attention.out",)),
        ("dec-batch", GQA, {**TOKENS, "attention__core": "batch"}, ("attention.core", "attention.out", "stream")),
    ],
)
def test_new_tokens(
    case: str, mixer: Attention, letters: dict[str, str], targets: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_of(Layer(mixer, None), (1, 8), 1024, letters, batch=16)
    assert added([*run.own(monkeypatch), *run.converted(*targets)]) == measured(case)


def test_one_kv_head_from_heads_to_sequences_and_back() -> None:
    # New keys and values of the one head travel with the queries: 34 heads instead of 32.
    run = run_of(Layer(MQA, None), (1, 8), 1024, {"attention__core": "batch"}, batch=16)
    ((kind, group, queries),) = run.converted("attention.core")
    assert (kind, group, queries / 34 * 32) == ("all-to-all", 8, 16384)
    rest = run.converted("attention.out", "stream")
    assert added([*rest, (kind, group, 16384.0)]) == measured("dec-mqa-batch")


@pytest.mark.parametrize(("case", "letter"), [("emb-vocab-ar", "vocabulary"), ("emb-dim-gather", "hidden")])
def test_embedding(case: str, letter: str) -> None:
    run = run_of(Layer(None, MLP), (1, 8), 256, {"embed": letter}, name="embed")
    assert added(run.converted()) == measured(case)
    assert run.weights() * 2 == expected(case)["weight_bytes_per_device"]


@pytest.mark.parametrize(("case", "letter"), [("head-N-gather", "vocabulary"), ("head-K", "hidden")])
def test_logits(case: str, letter: str) -> None:
    run = run_of(Layer(None, MLP), (1, 8), 256, {"head": letter}, batch=256, name="head")
    start, end = HEAD.decode.left((letter,)), SAMPLING.decode.needed((letter,))
    assert added(run.moved(4096, state_index(start), state_index(end), sequences=True)) == measured(case)
    assert run.weights() * 2 == expected(case)["weight_bytes_per_device"]


EXPERTS = Layer(None, MoeFfn(16, 4, 1024, gated=False))


def test_tokens_on_every_device_meet_their_experts_and_are_summed() -> None:
    # All tokens are there: nothing is dispatched, partial sums of the combined tokens are reduced once.
    model, d = Model("moe", 512, 1000, (EXPERTS,)), degrees(tp=8, ep=8)
    run = Run(model, d, strategy(model, d, stream="R"), 256)
    summed = run.moved(512, state_index(("P",)), state_index(("R",)))
    assert added(summed) == measured("moe-replicated-tokens")
    into, back = (next(edge for edge in run.block.edges if edge.role == role) for role in ("dispatch", "combine"))
    rows = [run.tables.edge_of(run.block, edge).base[0] for edge in (into, back)]
    dispatched, combined = run.tables.distinct_times[run.tables.which[rows], run.phase]
    own = run.prices.node(run.block, run.ends(back)[1])[0][0, 0, run.phase]
    ((_, _, n),) = summed
    reduce = seconds(run.prices.mesh.regimes((0,)), Collective.ALL_REDUCE, np.array([[n]]))[0, 0]
    assert dispatched == 0 and own < combined <= reduce + own
