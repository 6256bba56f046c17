"""Operator programs over packets: what runs at a site, whoever hosts it."""
