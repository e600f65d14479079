"""The optimiser of the agents that train networks."""

from __future__ import annotations

from collections.abc import Iterable

import torch


class Adam:
    """Adam (arXiv 1412.6980); torch's own imports torch's compiler, which takes a second and is not needed here."""

    def __init__(self, parameters: Iterable[torch.Tensor], learning_rate: float) -> None:
        self.learning_rate, self.steps = learning_rate, 0
        self.moments = [(each, torch.zeros_like(each), torch.zeros_like(each)) for each in parameters]

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter, _, _ in self.moments:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has one along its mean gradient over the root of its mean square gradient."""
        self.steps += 1
        size = self.learning_rate / (1.0 - 0.9**self.steps)
        for parameter, mean, square in self.moments:
            if parameter.grad is None:
                continue
            mean.lerp_(parameter.grad, 0.1)
            square.lerp_(parameter.grad.square(), 0.001)
            root = (square / (1.0 - 0.999**self.steps)).sqrt_().add_(1e-8)
            parameter.addcdiv_(mean, root, value=-size)
