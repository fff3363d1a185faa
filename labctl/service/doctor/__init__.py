"""Checks of a rig before a run: ``labctl doctor``."""
