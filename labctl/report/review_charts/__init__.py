"""Charts of the review page."""
