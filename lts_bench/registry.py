"""Finds agents, importing none before it is asked for: built-in modules, entry points, files.

What a list shows of an agent (name, track, version, first line of its docstring) is read from its source.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from pathlib import Path
from types import ModuleType

import msgspec

from lts_bench.agent import TRACKS, Agent
from lts_bench.specs.failure import InputError, did_you_mean

GROUP = "lts_bench.agents"
"""The entry-point group of third parties' agents: ``name = "package.module:Class"``."""

PACKAGES = ("lts_bench.agents", "lts_bench.baselines")
"""The packages of built-in agents; a module is named as its agent."""

EXTRAS = {"sklearn": "rl", "tianshou": "rl", "torch": "rl"}
"""The extra of this package that brings a module which agents may need."""


class AgentInfo(msgspec.Struct, frozen=True):
    """What is known of an agent without importing it.

    Attributes:
        name: what `load_agent` takes.
        track: as declared in its source, empty where the source doesn't say it literally.
        version: likewise.
        summary: the first line of the docstring of its class, else of its module.
        origin: module or file, and class: ``lts_bench.agents.ppo:PPO``.
        path: the source file, None where there is none.
        broken: why it can't be used, None where nothing is known against it.
    """

    name: str
    track: str
    version: str
    summary: str
    origin: str
    path: str | None
    broken: str | None


def list_agents() -> list[AgentInfo]:
    """Return all built-in and installed agents by name; of agents with equal names each is marked as broken."""
    found = sorted([*_built_in(), *_installed()], key=lambda info: (info.name, info.origin))
    count = Counter(info.name for info in found)
    return [info if count[info.name] == 1 else _mark_duplicate(info, found) for info in found]


def describe_agent(ref: str) -> AgentInfo:
    """Return what is known of one agent, importing nothing.

    Args:
        ref: a name that `list_agents` shows, or ``file.py:Class``.

    Raises:
        InputError: there is no such agent, or two have that name.
    """
    if _is_path(ref):
        return _describe_path(ref)
    agents = list_agents()
    chosen = [info for info in agents if info.name == ref]
    if not chosen:
        names = [info.name for info in agents]
        hint = did_you_mean(ref, names)
        raise InputError(f"no such agent{hint}", field="agent", value=ref, legal=[*names, "FILE.py:CLASS"])
    if len(chosen) > 1:
        raise InputError(f"{chosen[0].broken}; name one by FILE.py:CLASS", field="agent", value=ref)
    return chosen[0]


def load_agent(ref: str) -> type[Agent]:
    """Import an agent's class.

    Args:
        ref: a name that `list_agents` shows, or ``file.py:Class``.

    Raises:
        InputError: there is no such agent, it can't be imported, or its class is no usable agent.
    """
    info = describe_agent(ref)
    if info.broken:
        raise InputError(info.broken, source=info.origin, field="agent")
    return load_origin(info.origin)


def load_origin(origin: str) -> type[Agent]:
    """Import an agent's class from ``module:Class`` or ``file.py:Class``.

    Raises:
        InputError: it can't be imported, or is no usable agent.
    """
    module_name, _, class_name = origin.rpartition(":")
    try:
        module = _import_file(Path(module_name)) if _is_path(origin) else importlib.import_module(module_name)
    except Exception as error:
        extra = EXTRAS.get(error.name or "") if isinstance(error, ModuleNotFoundError) else None
        hint = f"; pip install 'lts-bench[{extra}]'" if extra else ""
        reason = f"cannot be imported: {type(error).__name__}: {error}{hint}"
        raise InputError(reason, source=origin, field="agent") from error
    return _checked(getattr(module, class_name, None), origin)


def agent_digest(ref: str) -> str:
    """Return the digest of an agent's source."""
    return source_digest(describe_agent(ref))


def source_digest(info: AgentInfo) -> str:
    """Return the sha256 of an agent's source file; of a built-in one that consists of several, that of their digests.

    Built-in agents share modules, which are part of each, and may have data beside a module, with its name.
    """
    if info.path is None:
        raise InputError(info.broken or "has no source file", source=info.origin, field="agent")
    files = _parts(Path(info.path)) if is_built_in(info) else [Path(info.path)]
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return digests[0] if len(digests) == 1 else hashlib.sha256("\n".join(digests).encode()).hexdigest()


def _parts(path: Path) -> list[Path]:
    """Return the modules that a built-in agent consists of, with their data, sorted; nothing is imported."""
    found, waiting = set[Path](), {path}
    while waiting:
        module = waiting.pop()
        found.update(file for file in module.parent.glob(f"{module.stem}.*") if file.is_file())
        waiting |= {shared for shared in _shared_with(module) if shared not in found}
    return sorted(found)


def _shared_with(path: Path) -> Iterator[Path]:
    """Yield the modules of built-in agents that a module imports from, anywhere in its source."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(PACKAGES):
            spec = _find_spec(node.module)
            yield Path(str(spec and spec.origin))


def is_built_in(info: AgentInfo) -> bool:
    """Return whether an agent belongs to this package."""
    return info.origin.startswith(tuple(f"{package}." for package in PACKAGES))


def _built_in() -> Iterator[AgentInfo]:
    for package in PACKAGES:
        spec = _find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in Path(folder).glob("[!_]*.py"):
                yield _describe_source(path.stem, f"{package}.{path.stem}", path)


def _installed() -> Iterator[AgentInfo]:
    for point in entry_points(group=GROUP):
        yield _describe_entry_point(point)


def _describe_entry_point(point: EntryPoint) -> AgentInfo:
    spec = _find_spec(point.module)
    path = Path(spec.origin) if spec and spec.origin and spec.has_location else None
    if spec is None or path is None or path.suffix != ".py":
        reason = f"no module {point.module!r}" if spec is None else f"{point.module!r} has no Python source"
        return AgentInfo(point.name, "", "", "", point.value, None, reason)
    return _describe_source(point.name, point.module, path, point.attr)


def _describe_path(ref: str) -> AgentInfo:
    file, _, class_name = ref.rpartition(":") if not ref.endswith(".py") else (ref, "", "")
    path = Path(file)
    if not path.is_file():
        raise InputError("no such file", field="agent", value=file)
    info = _describe_source(None, file, path, class_name)
    if info.broken:
        raise InputError(info.broken, source=file, field="agent", value=class_name or None)
    return info


def _describe_source(name: str | None, module: str, path: Path, class_name: str | None = None) -> AgentInfo:
    """Read an agent's description from source; of name and class one may be left open: it follows from the other."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (ValueError, SyntaxError, OSError, RecursionError, MemoryError) as error:
        return AgentInfo(name or "", "", "", "", module, str(path), f"cannot be read: {error}")
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    if class_name is None:
        class_name = next((key for key, node in classes.items() if _constants(node).get("name") == name), "")
        missing = f"defines no class with name = {name!r}"
    else:
        missing = f"defines no such class{did_you_mean(class_name, classes)}; classes: {', '.join(classes) or 'none'}"
    if class_name not in classes:
        summary = _first_line(ast.get_docstring(tree))
        return AgentInfo(name or class_name, "", "", summary, f"{module}:{class_name}", str(path), missing)
    node = classes[class_name]
    facts = _constants(node)
    summary = _first_line(ast.get_docstring(node)) or _first_line(ast.get_docstring(tree))
    track, version = facts.get("track", ""), facts.get("version", "")
    name = name or facts.get("name", class_name)
    return AgentInfo(name, track, version, summary, f"{module}:{class_name}", str(path), None)


def _constants(node: ast.ClassDef) -> dict[str, str]:
    """Return the class attributes that are set to literal strings, also as ``a, b = "x", "y"``."""
    found: dict[str, str] = {}
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and statement.value is not None:
            pairs: list[tuple[ast.expr, ast.expr]] = [(statement.target, statement.value)]
        elif isinstance(statement, ast.Assign):
            pairs = [pair for target in statement.targets for pair in _unpacked(target, statement.value)]
        else:
            continue
        for target, value in pairs:
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                found[target.id] = value.value
    return found


def _unpacked(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _find_spec(module: str) -> ModuleSpec | None:
    """Find a module without importing it or the packages it lies in.

    The usual finders want a package imported before they look for namespace packages in it, so its folders come first.
    """
    path: Sequence[str] | None = None
    spec: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        in_folders = (FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name) for folder in path or ())
        elsewhere = (finder.find_spec(name, path) for finder in sys.meta_path)
        spec = next((found for found in chain(in_folders, elsewhere) if found is not None), None)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return spec


def _import_file(path: Path) -> ModuleType:
    """Import a file under a name of its own, so that it can neither shadow nor be shadowed."""
    name = f"lts_bench_agent_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _checked(found: object, origin: str) -> type[Agent]:
    """Return the class if it keeps to the contract."""
    if not (isinstance(found, type) and issubclass(found, Agent)):
        raise InputError("is not a subclass of lts_bench.agent.Agent", source=origin, field="agent")
    if inspect.isabstract(found):
        missing = ", ".join(sorted(found.__abstractmethods__))
        raise InputError(f"does not define {missing}", source=origin, field="agent")
    for attribute in ("name", "version", "track"):
        if not isinstance(getattr(found, attribute, None), str):
            raise InputError("must be a string", source=origin, field=attribute)
    if found.track not in TRACKS:
        raise InputError("no such track", source=origin, field="track", value=found.track, legal=TRACKS)
    return found


def _mark_duplicate(info: AgentInfo, found: list[AgentInfo]) -> AgentInfo:
    origins = " and ".join(other.origin for other in found if other.name == info.name)
    return msgspec.structs.replace(info, broken=f"several agents have the name {info.name!r}: {origins}")


def _first_line(docstring: str | None) -> str:
    return docstring.strip().splitlines()[0] if docstring and docstring.strip() else ""


def _is_path(ref: str) -> bool:
    return ".py:" in ref or ref.endswith(".py")
