"""Learned and search agents, one file each."""
