"""Cells, worker processes and resume."""
