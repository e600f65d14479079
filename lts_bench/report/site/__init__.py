"""The static site: boards, and a page for each suite, agent, task and run; it opens from the file system."""
