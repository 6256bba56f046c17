"""What runs: sources, joins, probes, window keys, sinks, and what they remember."""
