"""Unlabelled rows that need not fit in memory: files that are read during training."""
