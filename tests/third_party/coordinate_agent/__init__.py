"""A package of a third party."""
