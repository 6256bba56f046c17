"""Dollars an hour for transfer over the path; a gigabyte is 10^9 bytes."""

from __future__ import annotations

from thalweg.cost.model import Model

MODEL = Model("dollars", "dollars/hour for transfer", lambda link, costs: (0.0, link.usd_per_gb * 3600 / 1e9))
