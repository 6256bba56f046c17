"""Logs of parcels between sites: the protocol, files, emulated links."""
