"""``python -m dessl`` is the command ``dessl``."""

from dessl.cli.main import main

main()
