"""Machines that the constants might as well belong to: every constant drawn within its documented error.

A constant of relative error e gets a factor exp(e·z), z standard normal: its median is 1, so that the constants as they
stand are the middle of the draws. What a datasheet prints (peaks, bandwidths, capacities) is not drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np

from lts_bench.specs.chip import Fitted, Kernels
from lts_bench.specs.cluster import Cluster
from lts_bench.specs.collectives import Collectives
from lts_bench.specs.engine import Engine
from lts_bench.specs.topology import ScaleOut

S = TypeVar("S", bound=msgspec.Struct)
F = TypeVar("F", bound=Fitted)
K = TypeVar("K", bound=str)
Draw = Callable[[float], float]
"""Relative error → factor."""


def _longer(time: float, factor: float) -> float:
    return time * factor


def _lower(rate: float, factor: float) -> float:
    return rate / factor


def _lower_share(share: float, factor: float) -> float:
    return min(share / factor, 1.0)


def _more_passes(passes: float, factor: float) -> float:
    """Every operand is moved once at least."""
    return max(passes * factor, min(passes, 1.0))


SLOWED: Mapping[str, Callable[[float, float], float]] = {
    "_us": _longer,
    "_ns": _longer,
    "quantise_bytes": _longer,
    "passes": _more_passes,
    "bytes_per_s_per_sm": _lower,
    "efficiency": _lower_share,
}
"""Ending of a constant's name → the constant where all times are longer; exponents and ratios of times stay."""


def perturbed(cluster: Cluster, engine: Engine, rng: np.random.Generator) -> tuple[Cluster, Engine]:
    """A cluster and an engine with constants drawn within their errors; errors of 0 change nothing.

    One factor for each kernel and type, kind of collective, level and host constant, each one number of the generator.
    """

    def draw(error: float) -> float:
        return float(np.exp(error * rng.standard_normal()))

    kernels, scale_out = cluster.chip.kernels, cluster.scale_out
    drawn = msgspec.structs.replace(
        cluster,
        chip=msgspec.structs.replace(cluster.chip, kernels=_kernels(kernels, draw)),
        collectives=_collectives(cluster.collectives, draw),
        scale_out=None if scale_out is None else _scale_out(scale_out, draw),
    )
    return drawn, _engine(engine, draw)


def draws(cluster: Cluster, engine: Engine, count: int, seed: int) -> Iterator[tuple[Cluster, Engine]]:
    """``count`` draws; the i-th depends on the seed and i alone."""
    for index in range(count):
        yield perturbed(cluster, engine, np.random.default_rng((seed, index)))


def _slowed(value: S, factor: float) -> S:
    """Constants that make everything ``factor`` times as long, but for efficiencies that end at 1."""
    names = value.__struct_fields__
    return msgspec.structs.replace(value, **{name: _scaled(name, getattr(value, name), factor) for name in names})


def _scaled(name: str, value: Any, factor: float) -> Any:
    if isinstance(value, tuple):
        return tuple(_scaled(name, each, factor) for each in value)
    if isinstance(value, msgspec.Struct):
        return _slowed(value, factor)
    rule = next((rule for ending, rule in SLOWED.items() if name.endswith(ending)), None)
    return value if rule is None or value is None else rule(value, factor)


def _kernel(constants: F, draw: Draw) -> F:
    return _slowed(constants, draw(constants.relative_error))


def _by_type(kernels: Mapping[K, F], draw: Draw) -> dict[K, F]:
    return {kind: _kernel(kernels[kind], draw) for kind in sorted(kernels)}


def _kernels(kernels: Kernels, draw: Draw) -> Kernels:
    return msgspec.structs.replace(
        kernels,
        gemm=_by_type(kernels.gemm, draw),
        prefill_attention=_kernel(kernels.prefill_attention, draw),
        decode_attention=_kernel(kernels.decode_attention, draw),
        latent_prefill=_kernel(kernels.latent_prefill, draw),
        latent_decode=_kernel(kernels.latent_decode, draw),
        experts=_by_type(kernels.experts, draw),
        small_kernel_us=kernels.small_kernel_us * draw(kernels.small_kernel_relative_error),
    )


def _collectives(constants: Collectives, draw: Draw) -> Collectives:
    """Engines' own all-reduces share the vendor's factor; an exchange without an error has that of an all-to-all."""
    errors = constants.relative_error
    reducing = draw(errors["all_reduce"])
    return msgspec.structs.replace(
        constants,
        all_reduce=_scaled("all_reduce", constants.all_reduce, reducing),
        custom_all_reduce={name: _slowed(each, reducing) for name, each in constants.custom_all_reduce.items()},
        all_gather=_scaled("all_gather", constants.all_gather, draw(errors["all_gather"])),
        all_to_all=_scaled("all_to_all", constants.all_to_all, draw(errors["all_to_all"])),
        expert_exchange=_scaled(
            "expert_exchange", constants.expert_exchange, draw(errors.get("expert_exchange", errors["all_to_all"]))
        ),
    )


def _scale_out(network: ScaleOut, draw: Draw) -> ScaleOut:
    error = network.relative_error
    return msgspec.structs.replace(
        network,
        latency_us=network.latency_us * draw(error.latency_us),
        efficiency=_lower_share(network.efficiency, draw(error.efficiency)),
    )


def _engine(engine: Engine, draw: Draw) -> Engine:
    """Of the imbalance the excess over 1 is drawn, of the overlap the share of a collective that is left to see."""
    error = engine.relative_error
    return msgspec.structs.replace(
        engine,
        step_overhead_us=engine.step_overhead_us * draw(error.step_overhead_us),
        sequence_overhead_us=engine.sequence_overhead_us * draw(error.sequence_overhead_us),
        small_kernels_per_layer=engine.small_kernels_per_layer * draw(error.small_kernels_per_layer),
        small_kernels_per_moe_layer=engine.small_kernels_per_moe_layer * draw(error.small_kernels_per_moe_layer),
        expert_imbalance=1 + (engine.expert_imbalance - 1) * draw(error.expert_imbalance),
        overlap=max(engine.overlap - (1 - engine.overlap) * (draw(error.overlap) - 1), 0.0),
    )
