"""Built-in chips, clusters, models and engine profiles: facts in our own files."""
