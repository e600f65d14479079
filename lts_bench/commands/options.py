"""Options and arguments that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

_WORKLOAD = "A YAML or JSON file, or isl=1024,osl=512,ttft_ms=500,tpot_ms=20."

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
ModelRef = Annotated[str, typer.Option("--model", metavar="MODEL", help="A built-in model or a config.json.")]
ClusterRef = Annotated[str, typer.Option("--cluster", metavar="CLUSTER", help="A built-in cluster or a YAML file.")]
StrategyFile = Annotated[Path, typer.Option("--strategy", metavar="FILE", help="A strategy as JSON.")]
WorkloadRef = Annotated[str, typer.Option("--workload", metavar="WORKLOAD", help=_WORKLOAD)]
MaybeWorkload = Annotated[str | None, typer.Option("--workload", metavar="WORKLOAD", help=_WORKLOAD)]
EngineRef = Annotated[str, typer.Option("--engine", help="A built-in engine profile or a YAML file.")]
Precision = Annotated[str, typer.Option(help="config, bf16, fp8, fp8_block, int8, int4 or fp4.")]
KvPrecision = Annotated[str, typer.Option(help="config, bf16, fp8, int8 or fp4.")]
RateScale = Annotated[float, typer.Option(help="So many times the rate: times are divided by it.")]
Directories = Annotated[list[Path] | None, typer.Argument(metavar="[DIR]...", help="Results (default: runs).")]
Isolation = Annotated[str, typer.Option(help="How agents run: child, sealed or in_process.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Worker processes (default: one a core).")]


def cores() -> int:
    """The number of worker processes where none is asked for."""
    return os.cpu_count() or 1
