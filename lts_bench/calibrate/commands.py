"""What ``lts-bench calibrate`` does with a chip, a cluster and an engine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from lts_bench.calibrate.chip_file import chip_yaml
from lts_bench.calibrate.cluster_file import cluster_yaml
from lts_bench.calibrate.engine import UNITS, fit_engine
from lts_bench.calibrate.kernels import calibrate
from lts_bench.calibrate.network import fit_network
from lts_bench.calibrate.show import print_refits, refits_document
from lts_bench.console import print_json, print_rows
from lts_bench.results.store import write_output
from lts_bench.specs.chip import load_chip
from lts_bench.specs.cluster import load_cluster
from lts_bench.specs.engine import load_engine
from lts_bench.specs.failure import InputError
from lts_bench.validate.table import read_table


@dataclass(frozen=True)
class Job:
    """What to refit.

    Attributes:
        table: measurements.
        out: the file that is written.
        chip: a chip, or
        cluster: a cluster, or
        engine: an engine.
        models: folder of configs, for an engine.
        only: one part of an engine's constants instead of all.
    """

    table: Path
    out: Path
    chip: str | None = None
    cluster: str | None = None
    engine: str | None = None
    models: Path | None = None
    only: str | None = None


def refit(job: Job, *, as_json: bool) -> None:
    """Refit what the job names, write its file and tell the errors.

    Raises:
        InputError: if the job names none or several, or does not say where an engine's models are.
    """
    named = [name for name in ("chip", "cluster", "engine") if getattr(job, name) is not None]
    if len(named) != 1:
        raise InputError(
            "give one of --chip, --cluster and --engine", field="calibrate", value=", ".join(named) or None
        )
    if job.chip is not None:
        _chip(job, job.chip, as_json=as_json)
    elif job.cluster is not None:
        _cluster(job, job.cluster, as_json=as_json)
    elif job.engine is not None:
        _engine(job, job.engine, as_json=as_json)


def _chip(job: Job, chip: str, *, as_json: bool) -> None:
    fitted, refits = calibrate(read_table(job.table), load_chip(chip))
    write_output(job.out, chip_yaml(fitted, refits, job.table.name, chip))
    document = refits_document(refits)
    (print_json if as_json else print_refits)(document)


def _cluster(job: Job, cluster: str, *, as_json: bool) -> None:
    fitted, report = fit_network(read_table(job.table).rows, load_cluster(cluster))
    write_output(job.out, cluster_yaml(fitted, job.table.name, cluster))
    _tell(report, as_json=as_json)


def _engine(job: Job, engine: str, *, as_json: bool) -> None:
    if job.models is None or not job.models.is_dir():
        raise InputError("must be a folder of config.json files", field="models", value=job.models and str(job.models))
    parts = [part for part in UNITS if job.only in (None, part)]
    if not parts:
        raise InputError("is unknown", field="only", value=job.only, legal=tuple(UNITS))
    fitted, report = fit_engine(read_table(job.table), load_engine(engine), job.models, parts)
    head = f"# refitted by lts-bench calibrate to {job.table.name}; what it does not tell is that of {engine}\n"
    kept = {key: value for key, value in msgspec.to_builtins(fitted).items() if value is not None}
    write_output(job.out, head + msgspec.yaml.encode(kept).decode())
    _tell(report, as_json=as_json)


def _tell(report: list[dict[str, object]], *, as_json: bool) -> None:
    if as_json:
        print_json({"fits": report})
    else:
        print_rows(report)
