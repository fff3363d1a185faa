"""What would go wrong tonight, checked now: the host, the drive, the meters, the disk."""
