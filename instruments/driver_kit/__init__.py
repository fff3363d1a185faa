"""What drivers are made of: SCPI, settings, polling, batches of readings."""
