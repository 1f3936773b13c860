"""Safe semi-supervised learning: few labels, many unlabelled examples, and a debiased risk."""

from dessl._version import __version__

__all__ = ["__version__"]
