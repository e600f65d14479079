"""Asks an agent for its identity, in a process of its own: importing a stranger's code is the child's risk.

``python -m lts_bench.harness.identify REF FD`` writes the answer as JSON to the file descriptor.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from lts_bench.harness.cells import AgentCard
from lts_bench.harness.process import bare_environment
from lts_bench.registry import agent_digest, describe_agent, load_agent
from lts_bench.specs.failure import InputError

LIMIT_S = 120.0


class Answer(msgspec.Struct, frozen=True):
    """An agent's card, or why there is none."""

    card: AgentCard | None
    error: str | None = None


def absolute_ref(ref: str) -> str:
    """Return the reference with its file, if it names one, made absolute: agents run in another directory."""
    file, colon, name = ref.rpartition(":") if ".py:" in ref else (ref, "", "")
    return f"{Path(file).resolve()}{colon}{name}" if file.endswith(".py") else ref


def identify_agents(refs: Sequence[str], workers: int) -> list[AgentCard]:
    """Return the card of each agent.

    Raises:
        InputError: an agent cannot be found or imported.
    """
    for ref in refs:
        describe_agent(ref)
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(_identify, map(absolute_ref, refs)))


def _identify(ref: str) -> AgentCard:
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="lts-bench-") as home, os.fdopen(reader, "rb") as answers:
        command = [sys.executable, "-m", "lts_bench.harness.identify", ref, str(writer)]
        process = subprocess.Popen(
            command,
            cwd=home,
            env=bare_environment(home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(writer,),
            start_new_session=True,
        )
        os.close(writer)
        try:
            _, stderr = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise InputError(f"cannot be imported within {LIMIT_S:g} s", field="agent", value=ref) from None
        data = answers.read()
    if not data:
        last = (stderr.decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"])[-1]
        raise InputError(f"cannot be imported: {last}", field="agent", value=ref)
    answer = msgspec.json.decode(data, type=Answer)
    if answer.card is None:
        raise InputError(str(answer.error))
    return answer.card


def _answer(ref: str) -> Answer:
    try:
        agent: Any = load_agent(ref)()
        card = AgentCard(ref, agent.name, agent.version, agent.track, agent.parameters, agent_digest(ref))
    except InputError as error:
        return Answer(None, str(error))
    return Answer(card)


def main() -> None:
    """Write the identity of the agent named on the command line."""
    ref, descriptor = sys.argv[1:]
    answer = msgspec.json.encode(_answer(ref))
    with os.fdopen(int(descriptor), "wb") as file:
        file.write(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
