"""The report of an experiment: tables, figures and findings beside the numbers of the paper."""
