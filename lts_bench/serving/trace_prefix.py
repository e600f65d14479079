"""What prompts of a trace share with earlier ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lts_bench.serving.trace import Trace


def prefix_hit_tokens(trace: Trace) -> NDArray[np.int64]:
    """Tokens of each prompt that a cache without limit holds from earlier requests.

    A hit is a prompt's longest run of blocks, from its first, that all occur in earlier requests. Where the trace does
    not tell what is shared, nothing is.

    Returns:
        (n,) tokens, at most the prompt's.
    """
    if trace.blocks is None:
        return np.zeros(len(trace), dtype=np.int64)
    offsets, ids = trace.blocks.offsets, trace.blocks.ids
    owner = np.repeat(np.arange(len(trace)), np.diff(offsets))
    first_owner = np.full(ids.max(initial=-1) + 1, len(trace))
    np.minimum.at(first_owner, ids, owner)
    misses = np.append(np.flatnonzero(first_owner[ids] >= owner), len(ids))
    run_end = np.minimum(misses[np.searchsorted(misses, offsets[:-1])], offsets[1:])
    hits: NDArray[np.int64] = np.minimum((run_end - offsets[:-1]) * trace.blocks.block_tokens, trace.prompt_tokens)
    return hits
