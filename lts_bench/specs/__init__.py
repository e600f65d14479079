"""What is given: models, chips, clusters, workloads, tasks and suites."""
