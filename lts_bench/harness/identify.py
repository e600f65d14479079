"""Asks an agent for its identity, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from lts_bench.harness.cells import AgentCard
from lts_bench.harness.introduce import Introduction
from lts_bench.harness.launch import origin_in, start
from lts_bench.registry import AgentInfo, describe_agent, source_digest
from lts_bench.specs.failure import InputError

LIMIT_S = 120.0


def absolute_ref(ref: str) -> str:
    """Return the reference with its file, if it names one, made absolute: agents run in another directory."""
    file, colon, name = ref.rpartition(":") if ".py:" in ref else (ref, "", "")
    return f"{Path(file).resolve()}{colon}{name}" if file.endswith(".py") else ref


def identify_agents(refs: Sequence[str], workers: int, isolation: str = "child") -> list[AgentCard]:
    """Return the card of each agent.

    Raises:
        InputError: an agent cannot be found or imported.
    """
    for ref in refs:
        describe_agent(ref)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(partial(_identify, isolation=isolation), map(absolute_ref, refs)))


def _identify(ref: str, isolation: str) -> AgentCard:
    info = describe_agent(ref)
    if info.broken:
        raise InputError(info.broken, source=info.origin, field="agent")
    told = _introduction(ref, info, isolation)
    if told.error is not None:
        raise InputError(told.error)
    return AgentCard(ref, told.name, told.version, told.track, told.parameters, source_digest(info))


def _introduction(ref: str, info: AgentInfo, isolation: str) -> Introduction:
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="lts-bench-") as home, os.fdopen(reader, "rb") as answers:
        process = start(
            "lts_bench.harness.introduce",
            writer,
            info,
            isolation,
            home,
            origin_in(info, isolation),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        os.close(writer)
        try:
            _, stderr = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise InputError(f"cannot be imported within {LIMIT_S:g} s", field="agent", value=ref) from None
        data = answers.read()
    try:
        return msgspec.json.decode(data, type=Introduction)
    except msgspec.DecodeError:
        last = (stderr.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise InputError(f"cannot be imported: {last}", field="agent", value=ref) from None
