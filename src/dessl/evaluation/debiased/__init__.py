"""Metrics from few labelled and many unlabelled rows, with honest intervals."""
