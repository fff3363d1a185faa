"""Runs on disk: shipping, retention, what a killed run left behind."""
