"""How right the model is: published training runs, and a user's own, predicted and compared with what was measured."""
