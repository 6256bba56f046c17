"""The demonstration: packets at three routers, replayed live, joined on Spark, checked and drawn."""
