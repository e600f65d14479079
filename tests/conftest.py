"""Lets every test, however deep it lies, import the fakes beside this file."""
