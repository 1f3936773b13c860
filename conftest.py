"""What pytest leaves out where an extra is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("lightning") else ["src/dessl/integrations/lightning.py"]
