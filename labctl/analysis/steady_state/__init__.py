"""Steady state: the rule, its rounds, its window, steady temperatures, when a phase is enough."""
