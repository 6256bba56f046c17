"""The cost of a plan: statistics, rates of intermediate streams, paths, and the objectives."""
