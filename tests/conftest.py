"""What all tests share."""

from hypothesis import settings

# A property holds or it does not, however busy the machine is.
settings.register_profile("any-machine", deadline=None)
settings.load_profile("any-machine")
