"""Checks of the cost model against measured facts."""
