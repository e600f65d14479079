"""Refits a chip's kernel constants from a table of measurements."""
