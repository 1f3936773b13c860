"""What pytest leaves out where an extra is not installed, and what it repeats exactly."""

import os
from importlib.util import find_spec

from hypothesis import settings

collect_ignore = [] if find_spec("lightning") else ["src/dessl/integrations/lightning.py"]

# New examples at every run find new faults at a desk; continuous integration judges one change.
settings.register_profile("repeatable", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("repeatable")
