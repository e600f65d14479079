"""Requests in time: traces read or generated, and their replay against a strategy."""
