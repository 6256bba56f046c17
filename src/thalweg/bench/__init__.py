"""How fast the join is, measured beside Spark's own cascade of stream-stream joins on the same data."""
