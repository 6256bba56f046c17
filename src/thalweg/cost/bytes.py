"""Bytes a second between different sites, counted once however many links they cross (pmjoin 3.1)."""

from __future__ import annotations

from thalweg.cost.model import Model

MODEL = Model("bytes", "bytes/s between sites", lambda link, costs: (0.0, 1.0), once=True)
