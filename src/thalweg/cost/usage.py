"""Network usage: bytes a second times latency over the path, the bytes in flight (integrated 2.2)."""

from __future__ import annotations

from thalweg.cost.model import Model

MODEL = Model("usage", "bytes in flight between sites", lambda link, costs: (0.0, link.latency_ms / 1e3))
