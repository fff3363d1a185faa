"""What would go wrong tonight, checked now."""
