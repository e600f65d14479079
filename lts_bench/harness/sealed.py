"""The isolation ``sealed``: an agent in a bubblewrap sandbox that holds no more than it needs.

It sees the system's libraries, the interpreter, installed packages, its own source, and of this package the client:
contract, problem, space and environments. It sees neither network, nor this machine's files and processes, nor the
packages that score, store and judge. `docs/threat-model.md` says what that stops.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import lts_bench
from lts_bench.cost.compiled import COMPILED, MACHINE_CODE, cache_folder, compiler, kept_machine_code
from lts_bench.registry import AgentInfo, is_built_in
from lts_bench.specs.failure import InputError

CLIENT_FOLDER, AGENT_FOLDER, HOME = "/client", "/agent", "/tmp/home"
MACHINE_CODE_FOLDER = "/tmp/machine_code"
CLIENT = (
    "__init__.py", "agent.py", "answer.py", "budget.py", "envs", "envs_on_import.py", "features.py",
    "harness/__init__.py", "harness/child.py", "harness/introduce.py", "harness/lifeline.py", "harness/turns.py",
    "harness/wire.py", "problem.py", "registry.py", "report/__init__.py", "report/strategy_text.py", "space", "specs",
)  # fmt: skip
"""Files and folders of this package that every agent may import."""
MODEL = ("cost", "data", "exact", "nominal.py", "quantities.py", "reference.py", "task.py")
"""What agents of the track ``model_based`` may import beside them."""
SYSTEM = (
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/localtime",
)
TMP_BYTES = 1 << 30
SANDBOX = (
    "--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent",
    "--hostname", "sealed", "--proc", "/proc", "--dev", "/dev", "--size", str(TMP_BYTES), "--tmpfs", "/tmp",
    "--dir", HOME, "--chdir", HOME,
)  # fmt: skip


@cache
def bubblewrap() -> str:
    """Return the path of ``bwrap``, having tried it.

    Raises:
        InputError: it is not there, or cannot make a sandbox on this machine.
    """
    path = shutil.which("bwrap")
    if path is None:
        rule = "needs bubblewrap (the program bwrap; Debian: apt-get install bubblewrap)"
        raise InputError(rule, field="isolation", value="sealed", legal=("child", "in_process"))
    trial = [path, *SANDBOX, *_binds(SYSTEM), "--", "true"]
    done = subprocess.run(trial, capture_output=True, text=True, errors="replace")
    if done.returncode:
        rule = f"bubblewrap makes no sandbox here: {done.stderr.strip()}"
        raise InputError(rule, field="isolation", value="sealed", legal=("child", "in_process"))
    return path


def sandbox_arguments(info: AgentInfo) -> list[str]:
    """Return the arguments of ``bwrap`` that make an agent's sandbox."""
    folders = [Path(sys.base_prefix), Path(sys.prefix), *_site_folders(), *_own_folder(info)]
    arguments = [*SANDBOX, *_binds(SYSTEM), *_binds(map(str, folders))]
    for hidden in _hidden(folders):
        arguments += ["--tmpfs", str(hidden)]
    arguments += _client_binds(info.track == "model_based")
    arguments += _agent_binds(info)
    return [*arguments, "--remount-ro", "/"]


def sandbox_environment(bare: dict[str, str]) -> dict[str, str]:
    """Return an agent's environment in the sandbox: that of a child, without places outside."""
    kept = {name: value for name, value in bare.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    inside = {"PATH": "/usr/bin:/bin", "HOME": HOME, "TMPDIR": "/tmp", "PYTHONDONTWRITEBYTECODE": "1"}
    return kept | inside | ({MACHINE_CODE: MACHINE_CODE_FOLDER} if MACHINE_CODE in kept else {})


def machine_code_copies() -> list[tuple[str, Path]]:
    """Return where in the sandbox which file of machine code belongs, so that it need not compile the cost model.

    They are copies: what an agent does to them stays in the sandbox. Where nothing is compiled there are none.
    """
    if compiler() is None:
        return []
    root = Path(lts_bench.__file__).parent
    return [
        (f"{kept_machine_code(MACHINE_CODE_FOLDER, Path(CLIENT_FOLDER, 'lts_bench', name))}/{file.name}", file)
        for name in sorted({*COMPILED} & {*MODEL})
        for file in sorted(kept_machine_code(cache_folder(), root / name).glob("*.nb[ic]"))
    ]


def python_path(info: AgentInfo) -> str:
    """Return where the interpreter in the sandbox looks first."""
    return ":".join([CLIENT_FOLDER, AGENT_FOLDER, *map(str, _own_folder(info))])


def sandbox_origin(info: AgentInfo) -> str:
    """Return what `lts_bench.registry.load_origin` takes in the sandbox."""
    module, _, name = info.origin.rpartition(":")
    return f"{AGENT_FOLDER}/{Path(module).name}:{name}" if module.endswith(".py") else info.origin


def _binds(paths: Iterable[str]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind-try", path, path)]


def _site_folders() -> list[Path]:
    return [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]


def _own_folder(info: AgentInfo) -> list[Path]:
    """Return the folder of installed packages that an agent's package lies in, beside what it needs."""
    package = _package(info)
    if package is None or not any(package.parent.glob("*.dist-info")):
        return []
    return [package.parent]


def _package(info: AgentInfo) -> Path | None:
    """Return the top-level package or module of an installed agent; None for a file and a built-in one."""
    module = info.origin.rpartition(":")[0]
    if module.endswith(".py") or is_built_in(info):
        return None
    spec = importlib.util.find_spec(module.partition(".")[0])
    if spec is None:
        return None
    places = spec.submodule_search_locations
    return Path(next(iter(places))) if places else Path(str(spec.origin))


def _hidden(folders: list[Path]) -> Iterator[Path]:
    """This package, wherever a folder that is shown holds it, or the tree that it is developed in."""
    root = Path(lts_bench.__file__).parent
    is_tree = (root.parent / "pyproject.toml").is_file()
    places = {root.parent if is_tree else root, *(folder / "lts_bench" for folder in folders)}
    for place in sorted(places):
        if place.is_dir() and any(place.is_relative_to(folder) for folder in [Path("/usr"), *folders]):
            yield place


def _client_binds(with_model: bool) -> Iterator[str]:
    root = Path(lts_bench.__file__).parent
    for name in (*CLIENT, *(MODEL if with_model else ())):
        yield from ("--ro-bind", str(root / name), f"{CLIENT_FOLDER}/lts_bench/{name}")
    for name in ("agents", "baselines"):
        spec = importlib.util.find_spec(f"lts_bench.{name}")
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            yield from ("--ro-bind", folder, f"{CLIENT_FOLDER}/lts_bench/{name}")


def _agent_binds(info: AgentInfo) -> list[str]:
    if info.origin.rpartition(":")[0].endswith(".py"):
        source = Path(str(info.path)).resolve()
    elif (package := _package(info)) is not None and not _own_folder(info):
        source = package.resolve()
    else:
        return []
    return ["--ro-bind", str(source), f"{AGENT_FOLDER}/{source.name}"]
