"""The columnar join kernel: windows, probes, the N-way join. No Spark, no plans."""
