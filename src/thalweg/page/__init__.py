"""The live page and the metrics of a run: a server that only reads the run's folder."""
