"""The demonstration: packets at three routers, replayed live, joined across sites, checked and drawn."""
