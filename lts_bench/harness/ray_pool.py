"""The Ray executor: every call is a task of a running Ray cluster, retried where a node or a worker dies.

Nothing but the driver writes results. All nodes must have the same packages, and find files of agents and suites under
the same paths.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from lts_bench.specs.failure import InputError

RETRIES = 5
"""Of a call whose node or worker died: an agent may be the cause, and would be again."""


class Lost(Exception):  # noqa: N818 (what happened)
    """A call was lost with its node or worker, every time."""


class RayPool(Executor):
    """Calls functions on the cluster that this process is connected to; one processor a call."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Start a task; its future holds what the function returns or raises, or `Lost`."""
        import ray

        task = ray.remote(num_cpus=1, max_retries=RETRIES)(fn)
        answer: Future[Any] = Future()
        task.remote(*args, **kwargs).future().add_done_callback(lambda done: _pass_on(done, answer))
        return answer


def _pass_on(done: Future[Any], answer: Future[Any]) -> None:
    from ray.exceptions import RayError, RayTaskError

    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    elif isinstance(error, RayTaskError) and isinstance(error.cause, Exception):
        answer.set_exception(error.cause)
    elif isinstance(error, RayError):
        answer.set_exception(Lost(str(error).partition("\n")[0]))
    else:
        answer.set_exception(error)


@contextmanager
def ray_pool() -> Iterator[RayPool]:
    """Give a pool of the cluster that ``RAY_ADDRESS`` names, else of one that runs on this machine.

    Raises:
        InputError: Ray is not installed, or no cluster is there.
    """
    try:
        import ray
    except ModuleNotFoundError:
        rule = "needs Ray: pip install 'lts-bench[ray]'"
        raise InputError(rule, field="executor", value="ray", legal=("local",)) from None
    try:
        ray.init(address="auto", logging_level=logging.ERROR, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError):
        rule = "no Ray cluster runs here: start one with `ray start --head`, or name one in RAY_ADDRESS"
        raise InputError(rule, field="executor", value="ray", legal=("local",)) from None
    try:
        yield RayPool()
    finally:
        ray.shutdown()
