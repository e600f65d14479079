from __future__ import annotations

from pathlib import Path

import pytest
from sandboxes import needs_bubblewrap
from small_task import OPTIMUM, SmallTask, agent_file, small_cell

import lts_bench
from lts_bench.cost.compiled import kept_machine_code
from lts_bench.harness import sealed
from lts_bench.harness.runner import run_cell
from lts_bench.registry import describe_agent
from lts_bench.results.schema import Status
from lts_bench.specs.failure import InputError


@pytest.fixture
def no_memory() -> None:
    """Forget what was found on this machine before."""
    sealed.bubblewrap.cache_clear()


def test_without_bubblewrap_a_line_says_what_to_install(no_memory: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(InputError, match=r"isolation: needs bubblewrap .*apt-get install bubblewrap.*legal: child"):
        sealed.bubblewrap()


def test_a_machine_without_sandboxes_is_told(no_memory: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho no namespaces >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(InputError, match="makes no sandbox here: no namespaces"):
        sealed.bubblewrap()


def shown(words: list[str]) -> dict[str, str]:
    """Return what lies where in a sandbox."""
    return {words[at + 2]: words[at + 1] for at, word in enumerate(words) if word in ("--ro-bind", "--ro-bind-try")}


def test_nothing_of_the_package_is_shown_but_the_client(tmp_path: Path) -> None:
    info = describe_agent(agent_file(tmp_path, "pass"))
    words = sealed.sandbox_arguments(info)
    places, root = shown(words), Path(lts_bench.__file__).parent
    mine = {place for place, source in places.items() if Path(source).is_relative_to(root)}
    agents = {f"/client/lts_bench/{name}" for name in ("agents", "baselines")}
    assert mine - agents == {f"/client/lts_bench/{name}" for name in sealed.CLIENT}
    assert places["/agent/mine.py"] == str(tmp_path / "mine.py")
    assert sealed.sandbox_origin(info) == "/agent/mine.py:Mine"
    # A folder that holds the package is shown with a hole.
    holes = {Path(words[at + 1]) for at, word in enumerate(words) if word == "--tmpfs"}
    shows = [source for source in places.values() if root.is_relative_to(source)]
    assert not shows or holes & {root, root.parent}


def test_what_is_named_is_there() -> None:
    root = Path(lts_bench.__file__).parent
    assert all((root / name).exists() for name in (*sealed.CLIENT, *sealed.MODEL))


@needs_bubblewrap
@pytest.mark.parametrize("track", ["search", "model_based"])
def test_the_cost_model_is_there_for_who_may_use_it(tmp_path: Path, track: str) -> None:
    body = """
        import importlib
        for name in ("cost.model", "exact.optimum", "nominal", "suites", "results.store", "harness.runner"):
            try:
                importlib.import_module(f"lts_bench.{name}")
            except ImportError:
                print("not", name)
        problem.evaluate([[3, 15, 15]])
    """
    ref = agent_file(tmp_path, body)
    path = Path(ref.partition(":")[0])
    path.write_text(path.read_text().replace('"search"', f'"{track}"'))
    row = run_cell(small_cell(ref, isolation="sealed"), SmallTask(), OPTIMUM, tmp_path / "log")
    assert row.status is Status.OK
    model = [] if track == "model_based" else ["not cost.model", "not exact.optimum", "not nominal"]
    never = ["not suites", "not results.store", "not harness.runner"]
    assert (tmp_path / "log").read_text().splitlines() == [*model, *never]


@needs_bubblewrap
def test_machine_code_is_copied_to_where_the_sandbox_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "cache_folder", lambda: tmp_path / "cache")
    kept = kept_machine_code(tmp_path / "cache", Path(lts_bench.__file__).parent / "cost")
    kept.mkdir(parents=True)
    (kept / "kept.nbc").write_text("kept")
    body = """
        from pathlib import Path
        from lts_bench.cost.sorting import known_degrees
        file = Path(known_degrees.stats.cache_path, "kept.nbc")
        assert file.read_text() == "kept"
        file.write_text("changed")
        problem.evaluate([[3, 15, 15]])
    """
    ref = agent_file(tmp_path, body)
    path = Path(ref.partition(":")[0])
    path.write_text(path.read_text().replace('"search"', '"model_based"'))
    row = run_cell(small_cell(ref, isolation="sealed"), SmallTask(), OPTIMUM, tmp_path / "log")
    assert row.status is Status.OK, (tmp_path / "log").read_text()
    assert (kept / "kept.nbc").read_text() == "kept"


def test_without_a_compiler_there_is_no_machine_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed, "cache_folder", lambda: tmp_path)
    kept = kept_machine_code(tmp_path, Path(lts_bench.__file__).parent / "exact")
    kept.mkdir()
    (kept / "kept.nbi").touch()
    assert [file for _, file in sealed.machine_code_copies()] == [kept / "kept.nbi"]
    monkeypatch.setattr(sealed, "compiler", lambda: None)
    assert sealed.machine_code_copies() == []
