"""Is it safe here? Are labels missing at random, are there leaks, and what can be gained?"""
