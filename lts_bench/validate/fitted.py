"""Constants that were fitted to, or chosen on, runs of whole engines, with what tells them."""

from __future__ import annotations

from lts_bench.calibrate.engine import UNITS
from lts_bench.specs.chip import load_chip
from lts_bench.specs.engine import Engine, list_engines, load_engine

HOST, REQUESTS = tuple(UNITS["host"]), tuple(UNITS["requests"])
CALIBRATE = "`lts-bench calibrate silicon_agg.csv --models DIR --engine {engine} --only {part}`"


def fitted_constants() -> list[tuple[str, str, str]]:
    """(constant, value, how it came about), TPOT's first."""
    generic, static = load_engine("generic"), load_engine("fastertransformer")
    chosen = "chosen on TPOT of `lts-bench validate serving silicon_agg.csv`"
    host = CALIBRATE.format(engine=generic.name, part="host")
    lines = [(f"`{name}`, all engines", _value(generic, name), host) for name in HOST]
    lines.append(("`expert_popularity_shape`, all engines", _value(generic, "expert_popularity_shape"), chosen))
    fp4 = load_chip("b200").kernels.experts["fp4"]
    lines += [
        ("fp4 experts on Blackwell, `floor_us`", f"{fp4.floor_us:g}", chosen),
        (
            "fp4 experts on Blackwell, `copy_passes` and `token_passes`",
            f"{fp4.copy_passes:g}, {fp4.token_passes:g}",
            chosen,
        ),
        (
            f"`{HOST[1]}` of {static.name}",
            _value(static, HOST[1]),
            "latency of `lts-bench validate static fastertransformer.csv`",
        ),
    ]
    for engine in (load_engine(name) for name in list_engines()):
        if engine.request_overhead_ms:
            fit = CALIBRATE.format(engine=engine.name, part="requests")
            lines += [(f"`{name}` of {engine.name}", _value(engine, name), fit) for name in REQUESTS]
    return lines


def _value(engine: Engine, name: str) -> str:
    return f"{getattr(engine, name):g}"
