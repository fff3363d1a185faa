"""A store for runs: an S3 bucket or a folder, its objects, and what is where in it."""
