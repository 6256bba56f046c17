"""Hosts sites in one process."""
