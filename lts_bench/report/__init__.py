"""Statistics, tables and plots."""
