"""How it is decided: one file for each planner, one table of all."""
