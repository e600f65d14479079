"""``lts-bench certify``: the certificates of a suite, written beside the built-in suites or compared."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from lts_bench.exact.certificates import ENDING, Certificate, certify, decode_certificates, encode_certificates, shelf
from lts_bench.harness.execute import finished, worker_pool
from lts_bench.harness.session import Progress
from lts_bench.results.checks import Problem, check_certificate
from lts_bench.results.rescoring import same
from lts_bench.results.store import write_output
from lts_bench.specs.failure import InputError
from lts_bench.specs.suite import Suite, list_suites, load_suite
from lts_bench.specs.taskspec import TaskSpec
from lts_bench.task import Task

SHOWN = ("task", "instance", "draw", "goodput_per_npu", "bound")


class Options(msgspec.Struct, frozen=True):
    """What to certify: ``instances`` beside the nominal one (None: as many as the suite has seeds), where to."""

    suite: str
    instances: int | None
    out: Path | None
    workers: int
    check: bool


def certify_suite(options: Options, progress: Progress) -> dict[str, Any]:
    """Certify every task of a suite, and write the file or compare it.

    Raises:
        InputError: no such suite, nowhere to write, or an instance has no feasible strategy.
        WorkerLost: a worker was killed.
    """
    suite = load_suite(options.suite)
    file, last = _file(options, suite), suite.seeds if options.instances is None else options.instances
    places = [(spec, number) for spec in suite.tasks for number in range(last + 1)]
    certificates: list[Certificate] = []
    with worker_pool(options.workers) as pool:
        for certificate in finished(pool, _certify, places):
            certificates.append(certificate)
            progress(len(certificates), len(places), f"{certificate.task} instance {certificate.instance}")
    certificates.sort(key=lambda each: (each.task, each.instance))
    if options.check:
        different = list(_differences(file, certificates, suite, last))
    else:
        different = []
        write_output(file, encode_certificates(certificates))
    lines = [{name: getattr(each, name) for name in (*SHOWN, "certified")} for each in certificates]
    return {"suite": suite.name, "file": str(file), "certificates": lines, "differences": different}


def _certify(spec: TaskSpec, number: int) -> Certificate:
    return certify(Task(spec), number)


def _file(options: Options, suite: Suite) -> Path:
    if options.out is not None:
        return options.out / f"{suite.name}{ENDING}"
    folder = Path(str(shelf()))
    is_source = (folder.parents[1] / "pyproject.toml").is_file() and os.access(folder.parent, os.W_OK)
    if options.suite not in list_suites() or not (is_source or options.check):
        raise InputError("must be given: only certificates of built-in suites lie beside them", field="--out")
    return folder / f"{suite.name}{ENDING}"


def _differences(file: Path, certificates: list[Certificate], suite: Suite, last: int) -> Iterator[str]:
    """A line for each stored certificate up to instance ``last`` that is missing, superfluous or not as found now."""
    if not file.is_file():
        yield f"{file}: is missing"
        return
    stored = {(each.task, each.instance): each for each in decode_certificates(file.read_bytes(), str(file))}
    found = {(each.task, each.instance): each for each in certificates}
    specs = {spec.name: spec for spec in suite.tasks}
    for task, number in sorted(stored.keys() | found.keys()):
        place = f"{file}: {task} instance {number}"
        if (task, number) not in found:
            if number <= last:
                yield f"{place}: is no task of the suite"
        elif (task, number) not in stored:
            yield f"{place}: is missing"
        else:
            for field, message in _problems(specs[task], stored[task, number], found[task, number]):
                yield f"{place}: {field}: {message}"


def _problems(spec: TaskSpec, stored: Certificate, found: Certificate) -> Iterator[Problem]:
    for field in ("digest", "cost_model", "draw"):
        if getattr(stored, field) != getattr(found, field):
            yield Problem(field, f"is {getattr(stored, field)}, found {getattr(found, field)}")
    for field in ("goodput_per_npu", "bound"):
        if not same(getattr(stored, field), getattr(found, field)):
            yield Problem(field, f"is {getattr(stored, field)}, found {getattr(found, field)}")
    yield from check_certificate(Task(spec).instance(stored.instance, stored.draw), stored)
