"""What one evaluation answers."""

from __future__ import annotations

import numpy as np

ANSWER = np.dtype(
    [
        ("goodput_per_npu", np.float64),
        ("feasible", np.bool_),
        ("legal", np.bool_),
        ("ttft_s", np.float64),
        ("tpot_s", np.float64),
        ("memory_bytes", np.float64),
        ("violation", np.float64, (3,)),
    ]
)
"""One row a strategy: goodput in tokens/s per NPU (0 where infeasible), flags, seconds, bytes of the fullest device,
violations of memory, TTFT and TPOT as ``max(0, x / limit - 1)``."""

ILLEGAL_VIOLATION = 1e3
"""The violation, three times, of a vector that is not legal."""
