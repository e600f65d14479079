"""Lets every test, however deep it lies, import the fakes beside this file; examples take what time they take."""

from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
