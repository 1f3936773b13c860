"""``python -m dessl`` is the command ``dessl``."""

from dessl.cli import main

main()
