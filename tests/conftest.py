"""What all tests share: examples may take what time they take, as machines differ."""

from hypothesis import settings

settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")
