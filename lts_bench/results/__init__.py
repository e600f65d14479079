"""The schema of a result, the store."""
