"""The demo: packets at three routers, replayed live, joined across sites, verified and drawn."""
