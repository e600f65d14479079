"""An agent's own word on what identifies it: ``python -m lts_bench.harness.introduce FD ORIGIN``.

Importing a stranger's code is the risk of the process that runs this; the answer goes to the file descriptor as JSON.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from lts_bench.registry import load_origin
from lts_bench.specs.failure import InputError


class Introduction(msgspec.Struct, frozen=True):
    """What an agent says of itself, or why it cannot be used."""

    name: str = ""
    version: str = ""
    track: str = ""
    parameters: dict[str, Any] = {}
    error: str | None = None


def introduction(origin: str) -> Introduction:
    """Import an agent and ask it."""
    try:
        agent = load_origin(origin)()
    except InputError as error:
        return Introduction(error=str(error))
    return Introduction(agent.name, agent.version, agent.track, agent.parameters)


def main() -> None:
    """Answer for the agent named on the command line."""
    descriptor, origin = sys.argv[1:]
    answer = msgspec.json.encode(introduction(origin))
    with os.fdopen(int(descriptor), "wb") as file:
        file.write(answer)
    os._exit(0)


if __name__ == "__main__":
    main()
