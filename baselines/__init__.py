"""Heuristics and references, one file each."""
