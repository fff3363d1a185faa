"""HTML pages, and the files of a report."""
