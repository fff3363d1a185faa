"""What fio prints: documents, statuses while it runs, results."""
