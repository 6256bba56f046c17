"""Hosts operator programs on Structured Streaming. The only place that imports pyspark."""
