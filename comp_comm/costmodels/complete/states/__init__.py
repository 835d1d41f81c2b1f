"""What weights, gradients and optimizer states cost in a step: seconds of the optimizer, collectives, their overlap."""
