"""The parts of a report: each from the facts of a run to HTML, or nothing where there are none."""
