"""An agent that tries what an agent must not, and tells which attempts succeeded; the harness's side of its cell."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

from small_task import OPTIMUM, SmallTask, agent_file, small_cell

from lts_bench.budget import Budget
from lts_bench.harness.lifeline import end_children
from lts_bench.harness.nursery import nursery_pids
from lts_bench.harness.runner import run_cell

ATTACKS = """
    import importlib, json, os, pathlib, socket, subprocess, sys
    outside, secrets = pathlib.Path({outside!r}), {secrets!r}
    found = {{}}

    def attempt(name):
        def run(attack):
            try:
                found[name] = bool(attack())
            except BaseException as error:
                found[name] = False
                print(name, type(error).__name__, error, file=sys.stderr)
        return run

    def imports(*names):
        for name in names:
            try:
                importlib.import_module(name)
            except ImportError:
                continue
            return True

    def answered(send):
        count = 0
        for _ in range(4):
            count += len(send(problem.space.sample(40, rng)))
        return count

    @attempt("read the certificates")
    def _():
        from importlib import resources
        places = [pathlib.Path({root!r}) / "suites" / "certificates" / "smoke.jsonl"]
        try:
            places.append(resources.files("lts_bench.suites") / "certificates" / "smoke.jsonl")
        except ImportError:
            pass
        return any(place.is_file() and place.read_bytes() for place in places)

    @attempt("import the cost model")
    def _():
        return imports("lts_bench.cost.model", "lts_bench.exact.optimum", "lts_bench.task")

    @attempt("import suites, results and the harness")
    def _():
        return imports("lts_bench.suites", "lts_bench.results.store", "lts_bench.harness.runner", "lts_bench.cli")

    @attempt("read other files of the machine")
    def _():
        return (outside / "secret").read_text()

    @attempt("write a row beside the results")
    def _():
        return (outside / "forged.json").write_text("{{}}")

    @attempt("see other processes")
    def _():
        mine = {{os.getpid(), os.getppid(), 1}}
        return {{int(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")}} - mine

    @attempt("open the harness's memory")
    def _():
        if {isolation!r} == "in_process":
            return True
        # In a sandbox the parent is the sandbox's own first process.
        if os.getppid() != 1:
            return open(f"/proc/{{os.getppid()}}/mem", "rb")

    @attempt("learn run, task or instance")
    def _():
        told = [*os.environ.values(), os.getcwd(), *sys.argv]
        for process in ("self", "1"):
            told.append(pathlib.Path(f"/proc/{{process}}/cmdline").read_text())
        told += [os.readlink(link) for link in pathlib.Path("/proc/self/fd").iterdir() if link.is_symlink()]
        return any(secret in text for secret in secrets for text in told)

    @attempt("reach the network")
    def _():
        return socket.create_connection(("127.0.0.1", {port}), timeout=2)

    @attempt("spend more than the budget")
    def _():
        from lts_bench.budget import BudgetExhausted
        def locally(vectors):
            problem.meter.used = 0
            return problem.evaluate(vectors)
        def remotely(vectors):
            from lts_bench.harness import wire
            wire.send(problem._connection, wire.EVALUATE, wire.pack_vectors(vectors))
            return wire.unpack_answers(wire.receive(problem._connection)[1])[0]
        return answered(locally if hasattr(problem, "meter") else remotely) > 50

    @attempt("forge the ledger")
    def _():
        problem.remaining = 50
        problem.budget = None
        problem._goodput = 1e9

    @attempt("take more memory than allowed")
    def _():
        import numpy as np
        return np.empty({gibibytes} << 30, dtype=np.uint8) is not None

    @attempt("leave a process behind")
    def _():
        import time
        code = "import os; os.fork() and os._exit(0); os.setsid(); os.execlp('sleep', 'sleep', NAP)"
        subprocess.run([sys.executable, "-c", code.replace("NAP", repr({nap!r}))], check=True)
        time.sleep(0.5)
        return {nap!r} in subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout

    print(json.dumps(found))
"""
FORGERY = """
    import msgspec
    if hasattr(problem, "meter") and problem.meter.trace:
        last = problem.meter.trace[-1]
        problem.meter.trace.append(last._replace(goodput_per_npu=1e9, evaluation=last.evaluation + 1))
"""


def attack(folder: Path, isolation: str, port: int, nap: str, root: str) -> tuple[dict[str, bool], dict[str, Any]]:
    """Run the attacker's cell; return what it says has succeeded, and figures of the row."""
    outside = folder / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    cell = small_cell("", isolation=isolation, budget=Budget("e50", 50, 60.0), instance=1)
    body = ATTACKS.format(
        outside=str(outside), secrets=[cell.run_id, cell.task.name, cell.task.digest], port=port, nap=nap, root=root,
        isolation=isolation, gibibytes=8,
    )  # fmt: skip
    ref = agent_file(folder, textwrap.dedent(body) + textwrap.dedent(FORGERY))
    cell = small_cell(ref, isolation=isolation, budget=Budget("e50", 50, 60.0))
    log = folder / "logs" / f"{cell.run_id}.log"
    row = run_cell(cell, SmallTask(), OPTIMUM, log)
    end_children(nursery_pids())
    lines = [line for line in log.read_text().splitlines() if line.startswith("{")]
    goodput = row.best.goodput_per_npu if row.best else 0.0
    facts = {"status": row.status, "error": row.error, "goodput": goodput, "evaluations": row.cost.evaluations}
    return (json.loads(lines[-1]) if lines else {}), facts
