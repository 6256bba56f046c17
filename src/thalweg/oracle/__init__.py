"""The expected results of a query, recomputed by the letter of the rule, without Spark."""
