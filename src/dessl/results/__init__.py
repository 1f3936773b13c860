"""Results: records of runs, averages over runs, comparisons, and the facts of a run folder."""
