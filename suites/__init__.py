"""Suites of tasks, one YAML each."""
