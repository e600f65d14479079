from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from small_task import agent_file, random_agent

from lts_bench.report.figure_tables import FIGURE_TABLES

COMMAND = [sys.executable, "-c", "from lts_bench.cli import main; main()"]
SUITE = """
name: mini
description: Two tasks for tests.
agents: [random]
seeds: 2
budget: e50
tasks:
  - name: llama-3.1-8b/h100x4/loose
    model: llama-3.1-8b
    cluster: h100x4
    workload: {isl: 512, osl: 128}
  - name: llama-3.1-8b/h100x4/tight
    model: llama-3.1-8b
    cluster: h100x4
    workload: {isl: 512, osl: 128, slo: {tpot_ms: 50, ttft_ms: 2000}}
"""
TABLES = ("leaderboard.md", "summary.md", "leaderboard.csv", "tasks.csv", *FIGURE_TABLES)


def lts_bench(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], cwd=cwd, env=environment(), capture_output=True, text=True, timeout=300
    )


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "mini.yaml"
    path.write_text(SUITE)
    return path


def rows(out: Path) -> dict[str, dict[str, object]]:
    return {path.stem: json.loads(path.read_text()) for path in (out / "mini").glob("*.json") if path.stem != "suite"}


def tables(directory: Path) -> dict[str, str]:
    """Return the tables that runs of the same cells agree in: all but that of seconds."""
    return {name: (directory / "mini" / name).read_text() for name in TABLES if name != "anytime_seconds.csv"}


def test_a_run_ends_with_the_leaderboard_and_can_be_reported(suite: Path, tmp_path: Path) -> None:
    done = lts_bench("run", "--suite", suite, "--workers", 2, cwd=tmp_path)
    assert (done.returncode, done.stdout.count("random@1")) == (0, 1)
    assert done.stderr.splitlines()[-1] == "results: runs/mini"
    assert len(rows(tmp_path / "runs")) == 4
    assert lts_bench("report", cwd=tmp_path).returncode == 0
    boards = tmp_path / "results" / "boards" / "mini"
    drawn = [Path(table).stem for table in FIGURE_TABLES if table != "improvement.csv"]
    figures = {f"{name}.svg" for name in (*drawn, "tasks")}
    assert {path.name for path in boards.iterdir()} == {*TABLES, *figures, "scatter.png"}
    assert lts_bench("report", "--check", cwd=tmp_path).returncode == 0
    (boards / "leaderboard.csv").write_text("")
    changed = lts_bench("report", "--check", cwd=tmp_path)
    assert changed.returncode == 1
    assert changed.stderr == "results/boards/mini/leaderboard.csv:1: differs from what the results give\n"


def test_what_a_run_leaves_verifies_until_somebody_changes_it(suite: Path, tmp_path: Path) -> None:
    assert lts_bench("run", "--suite", suite, "--workers", 2, cwd=tmp_path).returncode == 0
    right = lts_bench("verify", "--json", cwd=tmp_path)
    assert (right.returncode, json.loads(right.stdout)["failed"]) == (0, 0)
    found = rows(tmp_path / "runs")
    assert all(row["instance"] == row["seed"] and row["optimum"]["certified"] for row in found.values())  # type: ignore[index]
    victim = tmp_path / "runs" / "mini" / f"{min(found)}.json"
    victim.write_text(json.dumps(found[victim.stem] | {"regret": 0.5}))
    wrong = lts_bench("verify", "runs", cwd=tmp_path)
    first, last = wrong.stdout.splitlines()
    assert (wrong.returncode, first.startswith(f"runs/mini/{victim.name}: regret: is 0.5")) == (1, True)
    assert last.endswith(" checks, 1 failed")


def test_certificates_are_the_same_bytes_and_check(suite: Path, tmp_path: Path) -> None:
    for out, workers in (("a", 1), ("b", 2)):
        done = lts_bench("certify", suite, "--out", out, "--workers", workers, "--json", cwd=tmp_path)
        assert (done.returncode, len(json.loads(done.stdout)["certificates"])) == (0, 6)
    file = tmp_path / "a" / "mini.jsonl"
    assert file.read_bytes() == (tmp_path / "b" / "mini.jsonl").read_bytes()
    assert lts_bench("certify", suite, "--out", "a", "--instances", 0, "--check", cwd=tmp_path).returncode == 0
    file.write_text(file.read_text().replace('"draw":0', '"draw":1'))
    changed = lts_bench("certify", suite, "--out", "a", "--instances", 0, "--check", cwd=tmp_path)
    assert (changed.returncode, "instance 0: draw: is 1, found 0" in changed.stderr) == (1, True)


def test_a_task_without_a_feasible_strategy_is_told_in_a_line(suite: Path, tmp_path: Path) -> None:
    suite.write_text(SUITE.replace("tpot_ms: 50", "tpot_ms: 0.001"))
    done = lts_bench("run", "--suite", suite, "--workers", 1, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert "llama-3.1-8b/h100x4/tight" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_json_is_one_document_whatever_an_agent_prints(suite: Path, tmp_path: Path) -> None:
    body = """
        import sys
        print("banner")
        sys.stderr.write("noise")
        sys.stdout.buffer.write(bytes([255]))
        problem.evaluate(problem.space.sample(50, rng))
    """
    ref = agent_file(tmp_path, body)
    for isolation in ("child", "in_process"):
        out = tmp_path / isolation
        done = lts_bench(
            "run", "--suite", suite, "--agent", ref, "--out", out, "--isolation", isolation, "--json", cwd=tmp_path
        )
        document = json.loads(done.stdout)
        assert (done.returncode, document["cells"], document["missing"]) == (0, 4, 0)
        assert len(list((out / "mini" / "logs").iterdir())) == 4
    left, right = (rows(tmp_path / isolation) for isolation in ("child", "in_process"))
    assert {key: row["trace_digest"] for key, row in left.items()} == {
        key: row["trace_digest"] for key, row in right.items()
    }


def test_failures_are_rows_the_next_agent_runs_and_the_exit_code_tells(suite: Path, tmp_path: Path) -> None:
    bad = agent_file(tmp_path, "problem.evaluate(problem.space.sample(5, rng))\nraise ValueError('no')", "bad")
    good = random_agent(tmp_path, "good")
    done = lts_bench("run", "--suite", suite, "--agent", bad, "--agent", good, "--json", cwd=tmp_path)
    assert done.returncode == 1
    board = {entry["agent"]: entry for entry in json.loads(done.stdout)["leaderboard"]}
    assert (board["bad@1"]["score"], board["bad@1"]["statuses"]) == (0.0, {"crash": 4})
    assert board["good@1"]["statuses"] == {"ok": 4}
    assert "bad@1 seed 1: crash: ValueError: no" in done.stderr
    again = lts_bench("run", "--suite", suite, "--agent", bad, "--agent", good, "--resume", "--json", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (1, done.stdout)
    reported = lts_bench("report", cwd=tmp_path)
    assert (reported.returncode, "mini: bad@1: 4 crash\n" in reported.stderr) == (1, True)


def test_failed_cells_run_again_only_when_asked(suite: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    body = f"""
        import pathlib
        path = pathlib.Path({str(marks)!r})
        path.write_text(path.read_text() + "x" if path.exists() else "x")
        problem.evaluate(problem.space.sample(50, rng))
        assert len(path.read_text()) > 4
    """
    command = ("run", "--suite", suite, "--agent", agent_file(tmp_path, body), "--workers", 1)
    assert lts_bench(*command, cwd=tmp_path).returncode == 1
    refused = lts_bench(*command, cwd=tmp_path)
    assert refused.returncode == 2
    assert "add --resume, or choose another --out" in refused.stderr
    assert lts_bench(*command, "--resume", cwd=tmp_path).returncode == 1
    assert len(marks.read_text()) == 4
    assert lts_bench(*command, "--retry-failed", cwd=tmp_path).returncode == 0
    assert len(marks.read_text()) == 8


def test_a_killed_run_leaves_no_process_and_resumes_without_doing_anything_twice(suite: Path, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    starts.mkdir()
    body = f"""
        import os, pathlib, time
        (pathlib.Path({str(starts)!r}) / f"{{os.getpid()}}.{{time.monotonic_ns()}}").touch()
        problem.evaluate(problem.space.sample(50, rng))
        time.sleep(0.3)
    """
    ref = agent_file(tmp_path, body)
    command = ["run", "--suite", str(suite), "--agent", ref, "--seeds", "4", "--workers", "2"]
    driver = subprocess.Popen([*COMMAND, *command], cwd=tmp_path, env=environment(), stderr=subprocess.DEVNULL)
    _wait_for(lambda: len(rows(tmp_path / "runs")) >= 3)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs" / "mini").glob("?" * 64 + ".json")}
    _wait_for(lambda: not any(_alive(int(path.name.split(".")[0])) for path in starts.iterdir()))
    started = len(list(starts.iterdir()))
    assert started <= len(before) + 2
    assert len(before) < 8
    resumed = lts_bench(*command, "--resume", cwd=tmp_path)
    assert resumed.returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert len(list(starts.iterdir())) - started == 8 - len(before)
    assert lts_bench(*command, "--out", "whole", cwd=tmp_path).returncode == 0
    for out in ("runs", "whole"):
        assert lts_bench("report", out, "--out", f"board-{out}", cwd=tmp_path).returncode == 0
    assert tables(tmp_path / "board-runs") == tables(tmp_path / "board-whole")


def _wait_for(condition, seconds: float = 60.0) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def _alive(pid: int) -> bool:
    try:
        return "lts_bench.harness." in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def test_a_lost_worker_is_told_and_takes_its_agent_along(suite: Path, tmp_path: Path) -> None:
    body = f"""
        import os, pathlib, time
        pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(os.getpid()))
        # The parent has imported the agent and forks; its parent is the worker.
        worker = pathlib.Path(f"/proc/{{os.getppid()}}/stat").read_text().rpartition(")")[2].split()[1]
        os.kill(int(worker), 9)
        time.sleep(3600)
    """
    ref = agent_file(tmp_path, body)
    done = lts_bench("run", "--suite", suite, "--agent", ref, "--workers", 1, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].startswith("error: a worker process was killed")
    _wait_for(lambda: not _alive(int((tmp_path / "pid").read_text())))


def test_a_corrupted_result_is_run_again(suite: Path, tmp_path: Path) -> None:
    assert lts_bench("run", "--suite", suite, cwd=tmp_path).returncode == 0
    whole = rows(tmp_path / "runs")
    victim = tmp_path / "runs" / "mini" / f"{min(whole)}.json"
    victim.write_bytes(victim.read_bytes()[:100])
    (victim.parent / "suite.json").write_text("{")
    broken = lts_bench("report", cwd=tmp_path)
    assert (broken.returncode, broken.stderr.count("\n")) == (2, 1)
    assert victim.name in broken.stderr or "suite.json" in broken.stderr
    done = lts_bench("run", "--suite", suite, "--resume", cwd=tmp_path)
    assert done.returncode == 0
    assert f"{victim.name}: not a JSON document" in done.stderr
    assert rows(tmp_path / "runs")[victim.stem]["trace_digest"] == whole[victim.stem]["trace_digest"]


def test_shards_add_up_to_the_whole(suite: Path, tmp_path: Path) -> None:
    for part in ("1/2", "2/2"):
        out = tmp_path / part[0]
        assert lts_bench("run", "--suite", suite, "--shard", part, "--out", out, cwd=tmp_path).returncode == 0
    assert len(rows(tmp_path / "1")) == len(rows(tmp_path / "2")) == 2
    half = lts_bench("report", "1", "--json", cwd=tmp_path)
    assert half.returncode == 1
    (board,) = json.loads(half.stdout)["boards"]
    assert (board["missing"], board["leaderboard"][0]["score"], board["leaderboard"][0]["rank"]) == (2, None, None)
    both = lts_bench("report", "1", "2", "--json", cwd=tmp_path)
    assert both.returncode == 0
    assert json.loads(both.stdout)["boards"][0]["missing"] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--suite", "nope"), "suite"),
        (("report", "--check", "--site", "site"), "leave out --check, or --site"),
        (("run", "--suite", "mini.yaml", "--agent", "randm"), "did you mean 'random'"),
        (("run", "--suite", "mini.yaml", "--agent", "nothing.py:Agent"), "no such file"),
        (("run", "--suite", "mini.yaml", "--budget", "e1000"), "e1k"),
        (("run", "--suite", "mini.yaml", "--isolation", "seald"), "in_process, child, sealed"),
        (("run", "--suite", "mini.yaml", "--executor", "slurm"), "local, ray"),
        (("run", "--suite", "mini.yaml", "--shard", "3/2"), "1 ≤ i ≤ n"),
        (("run", "--suite", "mini.yaml", "--agent", "random", "--agent", "random"), "occurs twice"),
        (("report", "nothing"), "no such directory"),
        (("verify", "nothing"), "no such directory"),
        (("certify", "mini.yaml"), "--out: must be given"),
        (("list", "agnets"), "did you mean 'agents'"),
        (("model", "lama-3.1-8b"), "llama-3.1-8b"),
        (("check", "--model", "llama-3.1-8b", "--cluster", "h100x4", "--strategy", "none.json"), "none.json"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    suite: Path, tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = lts_bench(*arguments, cwd=tmp_path)
    errors = done.stderr.splitlines()
    assert (done.returncode, done.stdout, len(errors)) == (2, "", 1)
    assert errors[0].startswith("error: ")
    assert words in errors[0]


def test_unknown_options_are_exit_code_2(tmp_path: Path) -> None:
    assert lts_bench("run", "--suit", "x", cwd=tmp_path).returncode == 2


@pytest.mark.parametrize("line", ["raise SystemExit(3)", "import no_such_module", "raise KeyError('x')", "1 +"])
def test_an_agent_that_cannot_be_imported_is_told_in_a_line(suite: Path, tmp_path: Path, line: str) -> None:
    ref = random_agent(tmp_path)
    path = Path(ref.partition(":")[0])
    path.write_text(f"print('hello')\n{path.read_text()}\n{line}\n")
    done = lts_bench("run", "--suite", suite, "--agent", ref, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("kind", ["suites", "tasks", "agents", "models", "chips", "clusters", "engines"])
def test_lists_are_json_and_tables(kind: str, tmp_path: Path) -> None:
    lines = json.loads(lts_bench("list", kind, "--json", cwd=tmp_path).stdout)[kind]
    shown = lts_bench("list", kind, cwd=tmp_path)
    assert shown.returncode == 0
    assert lines
    assert all(line["name"] in shown.stdout for line in lines)


HEAVY = ("torch", "tianshou", "pandas", "numba", "matplotlib", "pymoo", "gymnasium", "scipy", "numpy")


ONE = ["--model", "llama-3.1-8b", "--cluster", "h100x2", "--workload", "isl=64,osl=64,ttft_ms=500", "--strategy"]


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], []),
        (["run", "--help"], []),
        (["list", "agents"], ["numpy"]),
        (["evaluate", *ONE, "one.json"], ["numpy"]),
        (["evaluate", *ONE, "two.json"], ["numpy"]),
    ],
)
def test_what_needs_nothing_heavy_imports_none(arguments: list[str], allowed: list[str], tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"tp": 2}')
    (tmp_path / "two.json").write_text('{"prefill": {"replicas": 1}, "decode": {"replicas": 1}}')
    code = f"""
        import sys
        from lts_bench.cli import main
        sys.argv = ["lts-bench", *{arguments!r}]
        try:
            main()
        finally:
            print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, env=environment(), capture_output=True, text=True
    )
    assert "error" not in done.stderr
    assert done.stderr.strip().splitlines()[-1] == str(allowed)


def test_an_evaluation_tells_intervals_when_asked(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"tp": 2}')
    line = ["evaluate", "--model", "llama-3.1-8b", "--cluster", "h100x2", "--strategy", "s.json"]
    line += ["--workload", "isl=512,osl=128", "--json"]
    plain = json.loads(lts_bench(*line, cwd=tmp_path).stdout)
    asked = json.loads(lts_bench(*line, "--uncertainty", "--draws", "3", cwd=tmp_path).stdout)
    assert asked.pop("uncertainty")["draws"] == 3
    assert asked == plain
    assert lts_bench(*line, "--uncertainty", "--draws", "0", cwd=tmp_path).returncode == 2


def test_without_anything_the_help_is_shown(tmp_path: Path) -> None:
    assert "Usage" in lts_bench(cwd=tmp_path).stdout
    assert lts_bench("--version", cwd=tmp_path).stdout == "0.1.0\n"


def test_an_agent_is_put_to_the_conformance_suite(tmp_path: Path) -> None:
    good = lts_bench("check-agent", random_agent(tmp_path, "good"), "--json", cwd=tmp_path)
    assert (good.returncode, {check["passed"] for check in json.loads(good.stdout)["checks"]}) == (0, {True})
    bad = agent_file(tmp_path, "print('noise')\nproblem.evaluate(rng.integers(99, size=(100, 3)))", "bad")
    done = lts_bench("check-agent", bad, "--json", cwd=tmp_path)
    failed = {check["name"] for check in json.loads(done.stdout)["checks"] if not check["passed"]}
    assert (done.returncode, failed) == (1, {"legal"})
