"""What a strategy costs: operators, kernels, collectives, memory and steady serving."""
