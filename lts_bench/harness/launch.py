"""Starts the agent's side: a Python process that is told little, on its own or in a sandbox."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lts_bench.cost.compiled import MACHINE_CODE, cache_folder
from lts_bench.harness import sealed
from lts_bench.registry import AgentInfo

KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def bare_environment(home: str) -> dict[str, str]:
    """Return the environment of an agent: enough to import, one thread, nothing about who runs it."""
    kept = {name: _absolute(os.environ[name]) for name in KEPT_VARIABLES if os.environ.get(name)}
    fixed = {"HOME": home, "TMPDIR": home, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
    return kept | fixed | dict.fromkeys(ONE_THREAD, "1")


def _absolute(paths: str) -> str:
    return os.pathsep.join(str(Path(path).absolute()) for path in paths.split(os.pathsep))


def origin_in(info: AgentInfo, isolation: str) -> str:
    """Return where the agent's class is found in its process."""
    return sealed.sandbox_origin(info) if isolation == "sealed" else info.origin


def start(
    module: str, descriptor: int, info: AgentInfo, isolation: str, home: str, *arguments: str, **streams: Any
) -> subprocess.Popen[bytes]:
    """Start ``python -m MODULE DESCRIPTOR ARGUMENTS`` for an agent, in a session of its own.

    Args:
        module: what to run.
        descriptor: an open file descriptor that the process inherits.
        info: the agent, which decides what a sandbox holds.
        isolation: ``sealed`` for a sandbox.
        home: working directory of a process without one.
        arguments: of the module.
        streams: stdout and stderr, as `subprocess.Popen` takes them.
    """
    command = [sys.executable, "-m", module, str(descriptor), *arguments]
    environment, inherited = bare_environment(home), [descriptor]
    if info.track == "model_based":
        # Such an agent runs the cost model, which takes half a minute to compile.
        environment[MACHINE_CODE] = str(cache_folder())
    with ExitStack() as opened:
        if isolation == "sealed":
            environment = sealed.sandbox_environment(environment) | {"PYTHONPATH": sealed.python_path(info)}
            words = sealed.sandbox_arguments(info)
            for place, file in sealed.machine_code_copies() if MACHINE_CODE in environment else ():
                inherited.append(os.open(file, os.O_RDONLY))
                opened.callback(os.close, inherited[-1])
                words += ["--file", str(inherited[-1]), place]
            inherited.append(_hidden(words))
            opened.callback(os.close, inherited[-1])
            command = [sealed.bubblewrap(), "--args", str(inherited[-1]), "--", *command]
        return subprocess.Popen(
            command,
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            pass_fds=inherited,
            start_new_session=True,
            **streams,
        )


def _hidden(words: list[str]) -> int:
    """Return a file descriptor with arguments.

    The sandbox's first process shows its command line: what is there to see must not lie on it.
    """
    file = os.memfd_create("arguments")
    os.write(file, "\0".join(words).encode())
    os.lseek(file, 0, os.SEEK_SET)
    return file
