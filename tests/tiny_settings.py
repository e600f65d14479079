"""Small models on small clusters, with their cost tables, for tests of space and cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from lts_bench.cost.model import CostModel
from lts_bench.cost.nodes import Setting
from lts_bench.cost.phases import Phases
from lts_bench.space.decisions import Space
from lts_bench.space.operators import operators
from lts_bench.space.strategy import Degrees, Strategy, complete_sharding, even_stages
from lts_bench.specs.cluster import Cluster, load_cluster
from lts_bench.specs.engine import load_engine
from lts_bench.specs.layers import Attention, DenseFfn, LatentAttention, Layer, MoeFfn
from lts_bench.specs.model import Model
from lts_bench.specs.workload import Workload, parse_workload

WORKLOAD = "isl=256,osl=128,ttft_ms=500,tpot_ms=40"


def dense_model(layers: int = 4, *, heads: int = 8, kv_heads: int = 4, **changes: Any) -> Model:
    layer = Layer(Attention(heads, kv_heads, 64), DenseFfn(1024), vectors=1024)
    return replace(Model("tiny", 512, 1000, (layer,) * layers), **changes)


def moe_model(experts: int = 8, **changes: Any) -> Model:
    attention = Attention(8, 4, 64)
    dense = Layer(attention, DenseFfn(1024), vectors=1024)
    moe = Layer(attention, MoeFfn(experts, 2, 256, shared_width=256), vectors=1024)
    return replace(Model("tiny-moe", 512, 1000, (dense, moe, moe)), **changes)


def latent_model(**changes: Any) -> Model:
    mixer = LatentAttention(heads=8, q_rank=64, kv_rank=32, nope_dim=16, rope_dim=8, value_dim=16)
    moe = Layer(mixer, MoeFfn(8, 2, 256, shared_width=256), vectors=1024)
    return replace(Model("tiny-mla", 512, 1000, (moe,) * 3), **changes)


def setting(
    model: Model, cluster: str | Cluster = "h100x8", workload: str = WORKLOAD, engine: str = "generic", **changes: Any
) -> Setting:
    """A setting; keywords of an engine change its profile, the others the setting."""
    profile = load_engine(engine)
    own = {key: changes.pop(key) for key in list(changes) if key in profile.__struct_fields__}
    profile = msgspec.structs.replace(profile, **own)
    place = load_cluster(cluster) if isinstance(cluster, str) else cluster
    parsed: Workload = parse_workload(workload)
    return Setting(model, place, profile, Phases.of(parsed, profile), **changes)


def degrees(pp: int = 1, dp: int = 1, tp: int = 1, tx: int = 1, ep: int = 1, replicas: int = 1) -> Degrees:
    """Degrees with ``tp`` = ``tx`` times y; etp takes the rest of the stage."""
    return Degrees(replicas, pp, dp, tx, tp // tx, ep, dp * tp // ep)


def strategy(model: Model, d: Degrees, **sharding: str) -> Strategy:
    """Megatron's pattern with changes: ``dense__ffn__up="N"`` or ``"M,N"``, applied to every kind as ``ffn__up``."""
    known = operators(model)
    given: dict[str, tuple[str, ...]] = {}
    for name, letters in sharding.items():
        key = name.replace("__", ".")
        for operator in known:
            if operator.key == key or operator.name == key:
                chosen = tuple(letters.split(","))
                given[operator.key] = (("R",) * (operator.axes - len(chosen)) + chosen)[-operator.axes :]
    return Strategy(d, complete_sharding(given, known, d.tx, d.ty), even_stages(len(model.layers), d.pp))


def vector(model: Model, cost: CostModel, chosen: Strategy) -> np.ndarray:
    """The vector of a strategy under a cost model's own list of degrees."""
    known = operators(model)
    row = cost.tables.degrees.index(chosen.degrees)
    return np.array([[row, *(operator.index(chosen.sharding[operator.key]) for operator in known)]])


def cost_model(place: Setting, *listed: Degrees) -> CostModel:
    return CostModel(place, listed)


def space_of(place: Setting) -> tuple[Space, CostModel]:
    """The whole space of a setting and its cost."""
    space = Space.build(place.model, place.cluster)
    return space, CostModel(place, [Degrees(*map(int, row)) for row in space.degrees])
