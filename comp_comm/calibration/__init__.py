"""From measurements to numbers of a profile: readers of logs, the fit, its check, and projections from one baseline."""
