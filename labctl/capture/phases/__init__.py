"""The phases of a plan: fio's job, process and pool, and their order."""
