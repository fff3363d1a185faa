"""Tables for programs: CSV, JSON, Parquet, SQL."""
