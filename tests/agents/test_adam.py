"""The optimiser is Adam."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the extra 'rl' is not installed")

from lts_bench.agents._adam import Adam  # noqa: E402


def test_adam_is_torchs():
    torch.manual_seed(0)
    ours, theirs = (torch.nn.Parameter(torch.ones(5)) for _ in range(2))
    optimizers = Adam([ours], 0.1), torch.optim.Adam([theirs], 0.1)
    for target in torch.randn(20, 5):
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            (parameter - target).pow(2).sum().backward()
            optimizer.step()
    assert torch.allclose(ours, theirs, atol=1e-5)
