"""Plans: deployments of queries, with their checks, explanations and files."""
