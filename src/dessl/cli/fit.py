"""``dessl fit``: from a file to a trained model, its twin, and whether unlabelled data helped."""

import dataclasses
import shlex
import time
import warnings
from pathlib import Path
from typing import Annotated, Literal

import torch
from torch import Tensor
from typer import Option

from dessl.cli.errors import command, resumable
from dessl.cli.fit_folder import own_folder, put_model
from dessl.cli.options import LARGEST_SEED, AsJson, DataArgument, Device, device_named
from dessl.cli.output import noted_warnings, say, show, show_facts, show_json
from dessl.cli.sources import (
    Expected,
    check_labels_present,
    fingerprint,
    kind_of,
    new_rows,
    propensity_column,
    training_data,
)
from dessl.data import DataError, Part, SemiData
from dessl.recipes import PooledPredictor, Predictor, Recipe, recipe_for
from dessl.recipes.defaults import DEFAULT_SURROGATE, MEMBERS, Architecture, Lam, Teachers
from dessl.recipes.trial import Trial, run_trial, split
from dessl.report.page import write_report
from dessl.results.facts import MODEL, REPORT, TRAINING, TWIN, RunFacts, write_facts
from dessl.results.trial import trial_facts
from dessl.safety import audit
from dessl.safety.propensity import ESTIMATES, propensity_of
from dessl.saved import SavedModel
from dessl.teachers import DEFAULT

HOLD_OUT = 0.2  # share of the rows to judge by
TEACHERS: dict[bool | None, Teachers] = {None: "auto", True: DEFAULT, False: None}  # of --pool

Out = Annotated[Path, Option(metavar="RUN", help="Folder for the run.")]
Label = Annotated[str | None, Option(help="Column of the labels, for a table.")]
Ignore = Annotated[list[str] | None, Option(help="A column to leave out; repeatable.")]
Categorical = Annotated[
    list[str] | None, Option(help="A column of numbers that are categories; repeatable.")
]
Size = Annotated[int | None, Option(min=4, help="Side of the images, in pixels.")]
Labels = Annotated[
    int | None, Option(min=1, help="Keep this many labels, drawn at random; hide the rest.")
]
SurrogateName = Annotated[
    str | None,
    Option(
        help="Train on the debiased risk of this term, without a pool: a name of "
        "dessl.SURROGATES, but for combine, smooth and teacher, which need more than a name. "
        "pseudo_label if a term is needed and none given.",
        show_default=False,
    ),
]
Pool = Annotated[
    bool | None,
    Option(
        help="Pool the networks with a graph over all rows, trees and regressions, weighed on "
        "held-out labels. If not given: yes for tables and images up to 32 pixels a side, no with "
        "--surrogate, --lam or --risk.",
        show_default=False,
    ),
]
LamText = Annotated[str, Option(help="λ, or 'auto': chosen on held-out labels.")]
RiskName = Annotated[
    Literal["debiased", "ssl"], Option(help="The debiased risk, or the usual biased one.")
]
PropensityName = Annotated[
    str | None,
    Option(
        "--propensity",
        metavar="COLUMN|estimate-x|estimate-y",
        help="For labels that are not missing at random: the column with each row's probability to "
        "get its label, or estimate it from the row or from the class.",
    ),
]
TestFile = Annotated[
    str | None, Option(help="Rows to judge by; by default some are held out of DATA.")
]
HoldOut = Annotated[float, Option(min=0.01, max=0.9, help="Share of the rows to hold out.")]
Steps = Annotated[int | None, Option(min=1, help="Steps of each network.")]
Networks = Annotated[
    int | None,
    Option(
        min=1,
        max=MEMBERS,
        help="Networks to average; if not given, 5, and 1 for images above 16 pixels a side "
        "(grey ones above 32).",
    ),
]
Seed = Annotated[int, Option(min=0, max=LARGEST_SEED, help="Seed of all draws.")]
Resume = Annotated[bool, Option(help="Resume a run that is in RUN.")]


def fit(
    data: DataArgument,
    out: Out,
    label: Label = None,
    ignore: Ignore = None,
    categorical: Categorical = None,
    size: Size = None,
    labels: Labels = None,
    pool: Pool = None,
    surrogate: SurrogateName = None,
    lam: LamText = "auto",
    risk: RiskName = "debiased",
    propensity: PropensityName = None,
    test_file: TestFile = None,
    hold_out: HoldOut = HOLD_OUT,
    steps: Steps = None,
    networks: Networks = None,
    seed: Seed = 0,
    device: Device = "auto",
    resume: Resume = True,
    as_json: AsJson = False,
) -> None:
    """Train with and without the unlabelled rows, and report which is better.

    By default, networks trained on the labelled rows are pooled with other
    predictors, one of which uses all rows.

    A row without a label has an empty cell in the label column, or -1 in an
    npz file's y, or lies in the folder "unlabelled".

    Example: dessl fit people.csv --label outcome --out runs/people

    Example: dessl fit scans/ --surrogate fixmatch --lam 0.5 --out runs/scans

    Example: dessl fit mnist --labels 1000 --out runs/mnist-1000
    """
    started = time.perf_counter()
    if Path(data).is_dir() and out.resolve().is_relative_to(Path(data).resolve()):
        raise ValueError(
            f"--out {out} lies within {data}, where every folder is a class. Choose one elsewhere."
        )
    with resumable(out), noted_warnings() as notes:
        rows = training_data(
            data, label=label, categorical=categorical or (), size=size,
            ignore=_ignored(data, ignore, propensity),
        )  # fmt: skip
        if propensity is not None:
            rows = _weighed(rows, data, propensity, seed)
        test = None if test_file is None else _test_rows(test_file, data, rows)
        held_out = _held_out(rows, test_file, hold_out)
        train, test = split(rows, test=test, share=hold_out, labels=labels, seed=seed)
        found = audit(train, cheap=True, seed=seed)
        train = train.to(device_named(device))
        recipe = recipe_for(
            train, surrogate=surrogate, lam=_lam(lam), risk=risk, teachers=TEACHERS[pool],
            steps=steps, seed=seed, members=networks,
        )  # fmt: skip
        with own_folder(out, _settings(recipe), resume=resume):
            trial = _trained(train, test, recipe, out)
            facts = trial_facts(
                trial,
                surrogate=surrogate or DEFAULT_SURROGATE,
                command=command(),
                seconds=time.perf_counter() - started,
                settings={"lam_asked_for": lam, **held_out},
                warnings=tuple(notes),
            )
            facts = dataclasses.replace(facts, audit=found)
            details = {"surrogate": facts.methods[-1].surrogate, "data_sha256": fingerprint(data)}
            _write(out, trial, facts, details)
    if as_json:
        show_json(facts.as_dict())
        return
    show_facts(facts)
    show(f"Audit:  {found.sentence}")
    show(f"Model:  {out / MODEL}")
    show(f"Report: {out / REPORT}")
    show(f"Next:   dessl predict {shlex.quote(str(out))} DATA --out predictions.csv")


def _ignored(source: str, ignore: list[str] | None, propensity: str | None) -> list[str]:
    """Columns to drop: a row's probability to get its label is no feature of it."""
    own = propensity is not None and propensity not in ESTIMATES and kind_of(source) == "table"
    return [*(ignore or ()), *([propensity] if own and propensity else [])]


def _weighed(rows: SemiData, source: str, propensity: str, seed: int) -> SemiData:
    """The data with the probability of each row to get its label, known or estimated."""
    given = (
        propensity if propensity in ESTIMATES else propensity_column(source, propensity, len(rows))
    )
    found = propensity_of(rows, given, seed=seed)
    say(found.sentence)
    if rows.test is None:
        warnings.warn(
            "test rows are held out of the labelled rows, and metrics on them are not weighed by "
            "1/π: they describe the labelled rows. Pass --test-file with rows labelled at random.",
            UserWarning,
            stacklevel=2,
        )
    return found.on(rows)


def _held_out(data: SemiData, test_file: str | None, share: float) -> dict[str, float]:
    """The share of rows that is held out, as a setting, if any is; refuse one for nothing."""
    if test_file is None and data.test is None:
        return {"hold_out": share}
    if share != HOLD_OUT:
        judges = "a test part of their own" if test_file is None else "--test-file"
        raise ValueError(
            "--hold-out is the share of DATA to hold out, but these models are judged by "
            f"{judges}. Omit it."
        )
    return {}


def _settings(recipe: Recipe) -> dict[str, object]:
    pool = bool(recipe.teachers)
    return {
        "risk": recipe.plan.risk,
        "lam": recipe.lam,
        "networks": recipe.members,
        "pool": pool,
    }


def _trained(train: SemiData, test: Part, recipe: Recipe, out: Path) -> Trial:
    if not train.is_image:
        torch.set_num_threads(1)  # so small a network only waits for a second thread
    return run_trial(train, test, recipe, out=out / TRAINING)


def _lam(text: str) -> Lam:
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"--lam must be a number or 'auto'; got {text!r}.") from error


def _test_rows(test_file: str, source: str, data: SemiData) -> Part:
    """Read the rows to judge by, refusing those that are trained on."""
    expected = Expected.of(data)
    rows, _ = new_rows(test_file, expected)
    if _is_same_file(test_file, source) or (_equal(rows.x, data.x) and _equal(rows.y, data.y)):
        raise DataError.of(
            test_file,
            expected="rows to judge by that the models are not trained on",
            got="those of DATA, all of them trained on",
            do="Omit --test-file to hold out a share of DATA, or give other rows.",
        )
    check_labels_present(test_file, rows, expected)
    return rows


def _is_same_file(one: str, other: str) -> bool:
    """Whether both are one file or folder, or copies of one. Data set names are not files."""
    if not (Path(one).exists() and Path(other).exists()):
        return False
    return Path(one).samefile(other) or fingerprint(one) == fingerprint(other)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other.cpu())


def _write(out: Path, trial: Trial, facts: RunFacts, details: dict[str, str | None]) -> None:
    """Write both models, the facts and the report, in the place of those of an earlier end."""
    fitted = trial.fitted
    for name, model, lam in ((TWIN, fitted.complete_case, 0.0), (MODEL, fitted.model, fitted.lam)):
        more = {"lam": lam, "verdict": facts.verdict.sentence}
        put_model(out / name, _saved(trial, model, {**details, **more}))
    write_facts(out, facts)
    write_report(out / REPORT, facts)


def _saved(
    trial: Trial, model: Predictor | PooledPredictor, details: dict[str, object]
) -> SavedModel:
    architecture, data = trial.fitted.recipe.model, trial.data
    if not isinstance(architecture, Architecture):
        raise TypeError("a recipe by default has a network of dessl.MODELS.")
    return SavedModel(
        model=model,
        class_names=tuple(data.class_names),
        shape=tuple(data.x.shape[1:]),
        image=data.is_image,
        architecture=architecture,
        encoding=data.encoding,
        bits=data.bits,
        details=details,
    )
