"""The certified optimum of a task: best-first search over bounds, with a proof at its end."""

from lts_bench.exact.optimum import Optimum, optimum

__all__ = ["Optimum", "optimum"]
