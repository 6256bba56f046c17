"""What travels: parcels between sites, and their bytes."""
