"""Model FLOPs utilisation (PaLM, arXiv 2204.02311): flops that the model asks for ÷ flops that the devices could do."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.cost.kernels import gemm_rate
from lts_bench.cost.model import CostModel
from lts_bench.cost.phases import FIRST_RUNG, PREFILL
from lts_bench.specs.chip import Chip
from lts_bench.specs.formats import WeightGroup
from lts_bench.specs.layers import MoeFfn
from lts_bench.specs.model import Model

ROUNDING = 1e-9
"""What sums in floating point may exceed 1 by."""


class RooflineError(RuntimeError):
    """A time that the peaks do not allow: a fault of the cost model, whatever its input."""


def product_seconds(model: Model, chip: Chip) -> tuple[float, float]:
    """(a token through all layers, a row through the head) on one device at the peaks of the types that multiply.

    2 flops for every parameter of a matrix product, of experts those that a token uses. The embedding is a lookup; the
    products of queries, keys and values are left aside.
    """

    def seconds(parameters: float, group: WeightGroup) -> float:
        return 2 * parameters / gemm_rate(chip, model.precision.weights(group)).peak

    layers = 0.0
    for layer in model.layers:
        used = layer.ffn.mean_top_k if isinstance(layer.ffn, MoeFfn) else 1.0
        for matrix in layer.operators(model.hidden).values():
            layers += seconds(matrix.k * matrix.n * (used if matrix.group == "experts" else 1.0), matrix.group)
    return layers, seconds(model.vocab * model.hidden, "head")


def utilisation(cost: CostModel, vector: NDArray[np.int64]) -> dict[str, float]:
    """MFU of steady prefill and of steady decode, one prompt or b sequences of every rank and microbatch in flight.

    2 · active parameters · tokens ÷ (time · devices of a replica · peak), each product at the peak of its own type.

    Args:
        cost: tables of one batch size b.
        vector: a legal strategy.

    Raises:
        RooflineError: if either exceeds 1.
    """
    setting, degrees = cost.setting, cost.tables.degrees[int(vector[0])]
    phases, pp = setting.phases, degrees.pp
    layers, head = product_seconds(setting.model, setting.cluster.chip)
    total, heaviest = cost.stage_seconds(vector)
    needed = {
        "prefill": phases.prompts * (phases.workload.isl * layers + head),
        "decode": int(phases.batches[0]) * (layers + head),
    }
    taken = {
        "prefill": pp * float(heaviest[PREFILL]),
        "decode": max(pp * float(heaviest[FIRST_RUNG]), float(total[FIRST_RUNG])),
    }
    found = {phase: needed[phase] / (degrees.tp * taken[phase]) for phase in needed}
    for phase, share in found.items():
        if share > 1 + ROUNDING:
            raise RooflineError(f"{phase} reaches {share:.4g} of the peak: {setting.model.name} as {degrees.label()}")
    return found
