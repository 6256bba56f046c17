"""The experiments of the papers, run again."""
