"""Changes the plan of a run as its streams change."""
