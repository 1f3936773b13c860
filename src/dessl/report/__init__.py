"""Reports: tables, charts and HTML pages from the facts of runs."""
