"""What a plan costs: statistics, rates of intermediate streams, paths, and one file for each model."""
