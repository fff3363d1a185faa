"""Commands that run fio: ``run``, ``demo``, ``trace``."""
