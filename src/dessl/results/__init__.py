"""What runs gave: the record of one, averages over many, comparisons and verdicts."""
