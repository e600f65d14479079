from __future__ import annotations

import json
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest
from sandboxes import needs_bubblewrap
from small_task import OPTIMUM, SPEC, SmallTask, agent_file, random_agent, small_cell

from lts_bench.budget import Budget, Meter
from lts_bench.harness import runner
from lts_bench.harness.process import GRACE_S
from lts_bench.harness.runner import run_cell
from lts_bench.problem import LocalProblem
from lts_bench.results.schema import Row, Status, encode_row, outcome


def run(ref: str, tmp_path: Path, *, feasible: bool = True, seconds: float = 30.0, **changes: object) -> Row:
    cell = small_cell(ref, budget=Budget("e50", 50, seconds), **changes)
    return run_cell(cell, SmallTask(feasible=feasible), OPTIMUM, tmp_path / "log")


def gone(pid: int) -> bool:
    """Whether a process has ended, waiting a little for the kernel."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("isolation", ["child", pytest.param("sealed", marks=needs_bubblewrap)])
def test_all_isolations_give_the_same_outcome(tmp_path: Path, isolation: str) -> None:
    ref = random_agent(tmp_path)
    apart, here = (run(ref, tmp_path, isolation=each) for each in (isolation, "in_process"))
    assert outcome(apart) == outcome(here)
    assert (apart.status, apart.cost.evaluations, apart.isolation) == (Status.OK, 50, isolation)
    assert (apart.cost.unique, apart.cost.infeasible) == (here.cost.unique, here.cost.infeasible)
    assert apart.cost.agent_cpu_s > 0
    assert apart.cost.peak_memory_bytes > 10e6


@needs_bubblewrap
@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("import time; problem.evaluate([[3, 15, 15]]); time.sleep(3600)", Status.TIMEOUT, "stopped after 1.5 s"),
        ("import os; os.kill(os.getpid(), 11)", Status.CRASH, "the agent's process ended without a word (SIGSEGV)"),
        ("import os; os.kill(os.getpid(), 9)", Status.OOM, "killed from outside, most likely for lack of memory"),
        ("import os; os._exit(3)", Status.CRASH, "the agent's process ended without a word (exit code 3)"),
        ("raise KeyError('x')", Status.CRASH, "KeyError: 'x'"),
        (
            "import numpy; numpy.ones(8 << 30, dtype=numpy.uint8)",
            Status.OOM,
            "numpy._core",
        ),
    ],
)
def test_ends_in_a_sandbox_are_rows_too(tmp_path: Path, body: str, status: Status, error: str) -> None:
    row = run(agent_file(tmp_path, body), tmp_path, isolation="sealed", seconds=1.5)
    assert row.status == status
    assert row.error is not None
    assert row.error.startswith(error)


def test_processor_seconds_end_with_the_budgets(tmp_path: Path) -> None:
    body = """
        import resource
        assert resource.getrlimit(resource.RLIMIT_CPU) == (31, 32)
        resource.setrlimit(resource.RLIMIT_CPU, (1, 32))
        while True:
            pass
    """
    row = run(agent_file(tmp_path, body), tmp_path)
    assert (row.status, row.error) == (Status.TIMEOUT, "took more processor seconds than the budget has")


def test_the_seed_decides(tmp_path: Path) -> None:
    ref = random_agent(tmp_path)
    rows = [run(ref, tmp_path, seed=seed) for seed in (1, 1, 2)]
    assert rows[0].trace_digest == rows[1].trace_digest != rows[2].trace_digest
    assert rows[0].run_id == rows[1].run_id != rows[2].run_id


def test_the_agents_seed_tells_nothing_of_the_instance(tmp_path: Path) -> None:
    cells = [small_cell("x.py:X", seed=seed, instance=seed) for seed in range(1, 200)]
    seeds = [cell.agent_seed for cell in cells]
    assert len(set(seeds)) == len(seeds)
    assert not set(seeds).intersection(range(1000))
    # Neither larger nor smaller with the number, nor of its parity.
    steps = np.diff(seeds)
    assert 0.4 < (steps > 0).mean() < 0.6
    assert 0.4 < (np.array(seeds) % 2 == np.arange(1, 200) % 2).mean() < 0.6
    assert seeds == [cell.agent_seed for cell in cells]


def test_an_agent_is_told_neither_task_nor_instance(tmp_path: Path) -> None:
    cell = small_cell("x.py:X", seed=77, instance=77)
    problem = LocalProblem(Meter(SmallTask().evaluate, cell.budget, SmallTask().space), SmallTask().features)
    setup = msgspec.json.decode(runner._setup(cell, "x.py:X", problem))
    assert setup.pop("seed") == cell.agent_seed
    assert sorted(setup) == ["budget", "feature_names", "features", "memory_bytes", "nominal", "origin", "space"]
    assert setup["nominal"] is None
    words = json.dumps(setup)
    assert not [word for word in (SPEC.name, SPEC.model, SPEC.cluster, cell.task.digest, "77") if word in words]


@pytest.mark.parametrize("isolation", ["child", "in_process"])
def test_model_based_agents_get_the_nominal_constants_and_others_none(
    tmp_path: Path, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        runner, "nominal_for", lambda track, spec: {"of": spec.name} if track == "model_based" else None
    )
    ref = agent_file(tmp_path, "print('told', problem.nominal)")
    cell = small_cell(ref, isolation=isolation)
    for track, told in (("model_based", "{'of': 'toy/box/short'}"), ("search", "None")):
        card = msgspec.structs.replace(cell.agent, track=track)
        run_cell(msgspec.structs.replace(cell, agent=card), SmallTask(), OPTIMUM, tmp_path / "log")
        assert (tmp_path / "log").read_text() == f"told {told}\n"


def test_a_row_tells_the_optimum_and_what_lacks_to_it(tmp_path: Path) -> None:
    row = run(random_agent(tmp_path), tmp_path)
    assert row.best is not None
    assert (row.instance, row.optimum) == (1, OPTIMUM)
    assert row.regret == 1 - row.best.goodput_per_npu / 465.0
    assert run(random_agent(tmp_path), tmp_path, feasible=False).regret == 1.0
    crash = run(agent_file(tmp_path, "problem.evaluate([[3, 15, 15]])\nraise KeyError"), tmp_path)
    assert (crash.best is None, crash.regret) == (False, 1.0)


def test_a_row_has_what_a_replay_needs(tmp_path: Path) -> None:
    row = run(random_agent(tmp_path), tmp_path)
    task = SmallTask()
    assert row.best is not None
    from lts_bench.space.strategy import Degrees, Strategy, even_stages

    best = row.best.strategy
    degrees = Degrees(best["replicas"], best["pp"], best["dp"], 1, best["tp"], best["ep"], best["etp"])
    sharding = {key: tuple(choice) for key, choice in best["sharding"].items()}
    vector = task.space.encode(Strategy(degrees, sharding, even_stages(2, 1)))
    assert task.evaluate(vector[np.newaxis])["goodput_per_npu"][0] == row.best.goodput_per_npu
    assert row.best.slo_margin == pytest.approx(0.2)
    assert row.trace[-1].vector == tuple(vector)


def test_never_more_than_the_budget_and_the_prefix_counts(tmp_path: Path) -> None:
    body = """
        from lts_bench.budget import BudgetExhausted
        try:
            problem.evaluate(problem.space.sample(1000, rng))
        except BudgetExhausted as spent:
            assert len(spent.answers) == 50 and problem.remaining == 0
            problem.evaluate(problem.space.sample(1, rng))
    """
    row = run(agent_file(tmp_path, body), tmp_path)
    assert (row.status, row.cost.evaluations) == (Status.OK, 50)


def test_an_exception_is_a_crash_with_its_last_line(tmp_path: Path) -> None:
    body = "problem.evaluate(problem.space.sample(9, rng))\nraise KeyError('no such thing')"
    row = run(agent_file(tmp_path, body), tmp_path)
    assert (row.status, row.error, row.cost.evaluations) == (Status.CRASH, "KeyError: 'no such thing'", 9)
    assert "Traceback" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("raise MemoryError", Status.OOM, "MemoryError"),
        ("import sys; sys.exit(3)", Status.CRASH, "SystemExit: 3"),
        ("import os; os._exit(3)", Status.CRASH, "the agent's process ended without a word (exit code 3)"),
        ("import os; os.kill(os.getpid(), 9)", Status.OOM, "killed from outside, most likely for lack of memory"),
        ("import os; os.kill(os.getpid(), 11)", Status.CRASH, "the agent's process ended without a word (SIGSEGV)"),
        ("problem._connection.sendall(b'x' * 64)", Status.CRASH, "the agent's process broke the protocol"),
        ("problem._connection.close(); import time; time.sleep(3600)", Status.CRASH, "the agent's process hung up"),
        ("pass", Status.NO_SOLUTION, "none of 0 strategies was feasible"),
        ("problem.evaluate([[3, 13, 15]])", Status.INVALID, "none of 1 vectors was legal"),
    ],
)
def test_every_other_end_is_a_row(tmp_path: Path, body: str, status: Status, error: str) -> None:
    row = run(agent_file(tmp_path, body), tmp_path)
    assert row.status == status
    assert row.error is not None
    assert row.error.startswith(error)


def test_no_feasible_strategy_is_no_solution(tmp_path: Path) -> None:
    row = run(random_agent(tmp_path), tmp_path, feasible=False)
    assert (row.status, row.best, row.first_feasible, row.trace) == (Status.NO_SOLUTION, None, None, ())
    assert encode_row(row)


def test_what_is_no_vector_costs_an_evaluation_and_is_illegal(tmp_path: Path) -> None:
    body = """
        good = problem.space.sample(1, rng)[0]
        proposals = [[[1, 3]], [["8", "8", "8"]], [[2.0, 3.0, 3.0]], None, [[10**9, 0, 0]], [[10**30, 0, 0]],
                     [[-1, 3, 3]], [good.tolist() + [0]], {"tp": 8}]
        for proposal in proposals:
            answers = problem.evaluate(proposal)
            assert len(answers) == 1 and not answers["legal"].any() and (answers["violation"] == 1e3).all()
        assert problem.remaining == 50 - len(proposals)
        assert problem.evaluate([good])["legal"].all()
    """
    for isolation in ("child", "in_process"):
        row = run(agent_file(tmp_path, body), tmp_path, isolation=isolation)
        assert (row.error, row.cost.evaluations, row.cost.illegal) in (
            (None, 10, 9),
            ("none of 10 strategies was feasible", 10, 9),
        )


def test_a_sleeping_agent_is_killed_and_its_best_kept(tmp_path: Path) -> None:
    body = """
        import time
        problem.evaluate([[3, 15, 15]])
        time.sleep(3600)
    """
    row = run(agent_file(tmp_path, body), tmp_path, seconds=1.5)
    assert (row.status, row.error) == (Status.TIMEOUT, "stopped after 1.5 s")
    assert row.best is not None
    assert row.best.goodput_per_npu == 465.0


def test_a_deaf_agent_is_killed_with_its_children(tmp_path: Path) -> None:
    body = f"""
        import ctypes, os, pathlib, signal, subprocess, sys
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(3600)"
        child = subprocess.Popen([sys.executable, "-c", code])
        pathlib.Path({str(tmp_path / "pids")!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
        ctypes.PyDLL(None).sleep(3600)
    """
    row = run(agent_file(tmp_path, body), tmp_path, seconds=2.0)
    assert row.status == Status.TIMEOUT
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert all(map(gone, pids))
    assert row.cost.wall_s >= 2.0 + GRACE_S


def test_what_an_agent_leaves_running_is_ended(tmp_path: Path) -> None:
    body = f"""
        import pathlib, subprocess, threading, time
        child = subprocess.Popen(["sleep", "3600"])
        pathlib.Path({str(tmp_path / "pid")!r}).write_text(str(child.pid))
        threading.Thread(target=time.sleep, args=(3600,)).start()
        problem.evaluate(problem.space.sample(50, rng))
    """
    assert run(agent_file(tmp_path, body), tmp_path).status == Status.OK
    assert gone(int((tmp_path / "pid").read_text()))


def test_an_agent_sees_an_empty_directory_and_a_bare_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LTS_SECRET", "x")
    body = f"""
        import json, os, pathlib
        seen = dict(cwd=os.getcwd(), files=os.listdir(), env=sorted(os.environ), names=sorted(vars(problem)))
        pathlib.Path({str(tmp_path / "seen")!r}).write_text(json.dumps(seen))
    """
    run(agent_file(tmp_path, body), tmp_path)
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen["files"] == []
    assert seen["cwd"] not in (str(Path.cwd()), str(tmp_path))
    assert not Path(seen["cwd"]).exists()
    assert "LTS_SECRET" not in seen["env"]
    assert not {"task", "instance", "digest"}.intersection(name.strip("_") for name in seen["names"])


def test_whatever_an_agent_prints_goes_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    body = """
        import sys
        print("banner")
        sys.stdout.flush()
        sys.stdout.buffer.write(bytes([255, 254]))
        sys.stdout.buffer.flush()
    """
    run(agent_file(tmp_path, body), tmp_path)
    assert capfd.readouterr() == ("", "")
    assert (tmp_path / "log").read_bytes() == b"banner\n\xff\xfe"
