"""Commands, progress and tables."""
