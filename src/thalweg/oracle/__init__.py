"""What a query should give: recomputed by the letter of the rule, without Spark."""
