"""Agents are found by name, entry point and path, and none is imported by listing."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from lts_bench.agent import TRACKS, Agent
from lts_bench.registry import agent_digest, describe_agent, list_agents, load_agent
from lts_bench.specs.failure import InputError

AGENT = '''
"""Module line."""
from lts_bench.agent import Agent

class Mine(Agent):
    """Does little.

    At length.
    """

    name, version, track = "mine", "7", "search"

    def run(self, problem, rng):
        pass
'''


@pytest.fixture
def agent_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(AGENT, encoding="utf-8")
    return path


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Lay a package beside its entry points, as an installer does."""

    def lay(entry_points: dict[str, str], files: dict[str, str]) -> None:
        lines = [f"{name} = {value}" for name, value in entry_points.items()]
        files = {"demo-1.0.dist-info/METADATA": "Name: demo\nVersion: 1.0\n"} | files
        files["demo-1.0.dist-info/entry_points.txt"] = "\n".join(["[lts_bench.agents]", *lines])
        for name, text in files.items():
            path = tmp_path / "site" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))

    return lay


def test_every_built_in_agent_is_described_by_its_source():
    infos = {info.name: info for info in list_agents()}
    assert {"random", "evolution", "ppo", "megatron_search"} <= set(infos)
    for info in infos.values():
        assert info.broken is None
        assert info.track in TRACKS
        assert info.version and info.summary


@pytest.mark.parametrize("name", ["random", "evolution", "megatron_search"])
def test_description_and_class_agree(name):
    info, agent = describe_agent(name), load_agent(name)
    assert (agent.name, agent.track, agent.version) == (info.name, info.track, info.version)
    assert issubclass(agent, Agent)


def test_listing_and_describing_import_no_agent_and_nothing_heavy():
    code = """
        import sys
        from lts_bench.registry import agent_digest, list_agents
        for info in list_agents():
            agent_digest(info.name)
        heavy = {"torch", "tianshou", "pandas", "numba", "matplotlib", "pymoo", "gymnasium", "scipy"}
        agents = [name for name in sys.modules if name.startswith(("lts_bench.agents.", "lts_bench.baselines."))]
        print(sorted(heavy & set(sys.modules)), agents)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    assert done.stdout.split() == ["[]", "[]"]


def test_an_unknown_name_gets_a_suggestion():
    with pytest.raises(InputError, match="did you mean 'random'"):
        load_agent("randon")


def test_a_path_with_a_class_is_loaded(agent_file):
    info, agent = describe_agent(f"{agent_file}:Mine"), load_agent(f"{agent_file}:Mine")
    assert (info.name, info.track, info.version, info.summary) == ("mine", "search", "7", "Does little.")
    assert agent.__name__ == "Mine"
    assert agent().parameters == {}


@pytest.mark.parametrize("suffix", ["", ":Nine"])
def test_a_path_without_its_class_tells_the_classes(agent_file, suffix):
    with pytest.raises(InputError, match="classes: Mine"):
        load_agent(f"{agent_file}{suffix}")


def test_a_path_to_nothing_is_told(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_agent(f"{tmp_path / 'gone.py'}:Mine")


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("class Mine(:", "cannot be read"),
        ("import a_module_that_is_not_there\nclass Mine: pass", "cannot be imported: ModuleNotFoundError"),
        ("raise ValueError('two\\nlines')\nclass Mine: pass", "cannot be imported: ValueError: two lines"),
        ("class Mine: pass", "not a subclass"),
        ("from lts_bench.agent import Agent\nclass Mine(Agent): pass", "does not define run"),
        (AGENT.replace('"search"', '"magic"'), "no such track"),
        (AGENT.replace('"7"', "7"), "must be a string"),
    ],
)
def test_a_broken_file_is_told_in_one_line(agent_file, source, reason):
    agent_file.write_text(source, encoding="utf-8")
    with pytest.raises(InputError, match=reason) as caught:
        load_agent(f"{agent_file}:Mine")
    assert "\n" not in str(caught.value)


def test_a_missing_extra_is_told_with_what_installs_it(agent_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "tianshou", None)
    agent_file.write_text(f"import tianshou\n{AGENT}", encoding="utf-8")
    with pytest.raises(InputError, match=r"ModuleNotFoundError.*pip install 'lts-bench\[rl\]'"):
        load_agent(f"{agent_file}:Mine")


def test_two_files_of_one_name_do_not_mix(tmp_path):
    for version in ("1", "2"):
        folder = tmp_path / version
        folder.mkdir()
        (folder / "mine.py").write_text(AGENT.replace('"7"', f'"{version}"'), encoding="utf-8")
    assert [load_agent(f"{tmp_path / v / 'mine.py'}:Mine").version for v in ("1", "2")] == ["1", "2"]


def test_an_entry_point_is_listed_without_importing_its_package(install):
    boom = "raise RuntimeError('imported')"
    install({"guest": "guest_pkg.deep.mine:Mine"}, {"guest_pkg/__init__.py": boom, "guest_pkg/deep/mine.py": AGENT})
    info = describe_agent("guest")
    assert (info.name, info.track, info.summary, info.broken) == ("guest", "search", "Does little.", None)
    assert "guest_pkg" not in sys.modules
    with pytest.raises(InputError, match="RuntimeError: imported"):
        load_agent("guest")


def test_an_entry_point_is_loaded(install, monkeypatch):
    install({"visitor": "visitor_module:Mine"}, {"visitor_module.py": AGENT})
    assert load_agent("visitor").version == "7"
    monkeypatch.delitem(sys.modules, "visitor_module")


def test_an_entry_point_to_nothing_is_listed_as_broken(install):
    install({"ghost": "ghost_module:Mine"}, {})
    assert "ghost_module" in describe_agent("ghost").broken
    with pytest.raises(InputError, match="ghost_module"):
        load_agent("ghost")


def test_equal_names_are_an_error_that_names_both(install):
    install({"random": "rival_module:Mine"}, {"rival_module.py": AGENT})
    with pytest.raises(InputError, match=r"lts_bench\.baselines\.random:RandomSearch and rival_module:Mine"):
        load_agent("random")
    marked = [info for info in list_agents() if info.broken]
    assert [info.name for info in marked] == ["random", "random"]


def test_the_digest_is_that_of_the_source(agent_file):
    ref = f"{agent_file}:Mine"
    assert agent_digest(ref) == hashlib.sha256(AGENT.encode()).hexdigest()
    agent_file.write_text(AGENT + "# changed\n", encoding="utf-8")
    assert agent_digest(ref) == hashlib.sha256((AGENT + "# changed\n").encode()).hexdigest()
    assert agent_digest("random") == hashlib.sha256(Path(describe_agent("random").path).read_bytes()).hexdigest()


def test_the_digest_of_a_built_in_agent_is_that_of_all_it_consists_of():
    agents, baselines = (Path(describe_agent(ref).path).parent for ref in ("ppo", "random"))
    shared = [agents / f"{name}.py" for name in ("_adam", "_tianshou", "ppo")]
    pretrained = [f"{name}.py" for name in ("_axes", "_history", "_moves", "_surrogate", "_transfer")]
    weights = [agents / name for name in (*pretrained, "l2s_pretrained.npz", "l2s_pretrained.py")]
    for ref, files in (("ppo", shared), ("l2s_pretrained", [*weights, baselines / "megatron_search.py"])):
        digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
        assert agent_digest(ref) == hashlib.sha256("\n".join(digests).encode()).hexdigest()
