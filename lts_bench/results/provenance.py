"""Where and with what a cell ran."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import lts_bench
from lts_bench.results.schema import Provenance


def provenance(cost_model: str, agent_digest: str) -> Provenance:
    """Return the provenance of a cell that ends now."""
    utc = datetime.now(UTC).isoformat(timespec="seconds")
    return Provenance(cost_model=cost_model, agent_digest=agent_digest, utc=utc, **_surroundings())


@cache
def _surroundings() -> dict[str, Any]:
    commit = _git("rev-parse", "HEAD")
    return {
        "package": lts_bench.__version__,
        "commit": commit,
        "dirty": None if commit is None else bool(_git("status", "--porcelain")),
        "lock_digest": lock_digest(installed_packages()),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpu": _cpu(),
        "cores": os.cpu_count() or 0,
        "threads": 1,
    }


def _git(*arguments: str) -> str | None:
    """Ask git about the source tree of this package; None where it is installed without one."""
    root = Path(lts_bench.__file__).parents[1]
    if not (root / ".git").exists():
        return None
    try:
        answer = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()


def environment() -> dict[str, Any]:
    """Return what this machine is and which packages are installed."""
    return {**_surroundings(), "packages": installed_packages()}


def installed_packages() -> list[str]:
    """Return the name and version of every installed package, sorted."""
    return sorted({f"{found.name.lower()}=={found.version}" for found in distributions()})


def lock_digest(packages: list[str]) -> str:
    """Digest names and versions of packages."""
    return hashlib.sha256("\n".join(packages).encode()).hexdigest()


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, "") or platform.processor() or platform.machine()
