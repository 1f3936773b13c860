"""``dessl fit``: from a file to a trained model, its twin, and whether unlabelled data helped."""

import inspect
import re
import shlex
import time
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from dessl.cli.errors import command, resumable
from dessl.cli.options import LARGEST_SEED, AsJson, DataArgument, Device, Sheet, device_named
from dessl.cli.output import noted_warnings, say, show, show_facts, show_json

if TYPE_CHECKING:  # what imports torch is imported where it is used: --help does without
    from torch import Tensor

    from dessl.data import Part, SemiData
    from dessl.recipes import Fitted, PooledPredictor, Predictor, Recipe
    from dessl.recipes.defaults import Lam, Teachers
    from dessl.results.facts import RunFacts
    from dessl.saved import SavedModel

REFIT = "refit"  # its runs, within those of training
HOLD_OUT = 0.2  # share of the rows to judge by
MOST_NETWORKS = 5  # dessl.recipes.defaults.NETWORKS
MARGIN = 0.01  # dessl.evaluation.verdict.MARGIN

Out = Annotated[Path, Option(metavar="RUN", help="Folder for the run.")]
Label = Annotated[str | None, Option(help="Column of the labels, for a table or a file of labels.")]
Ignore = Annotated[list[str] | None, Option(help="A column to leave out; repeatable.")]
Categorical = Annotated[
    list[str] | None, Option(help="A column of numbers that are categories; repeatable.")
]
MissingLabel = Annotated[
    list[str] | None,
    Option(metavar="MARK", help="Marks a missing label, besides an empty cell; repeatable."),
]
AllClasses = Annotated[
    bool,
    Option("--no-missing-label", help="Labels such as NA and ? are classes: do not ask."),
]
Size = Annotated[int | None, Option(min=4, help="Side of the images, in pixels.")]
Labels = Annotated[
    str | None,
    Option(
        metavar="N|FILE",
        help="A number: keep this many labels, drawn at random; hide the rest. A file: the labels "
        "of .npy files.",
    ),
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
Teacher = Annotated[
    list[str] | None,
    Option(
        metavar="COLUMN",
        help="A teacher's answers to all rows, which may be wrong: a column of classes, or the "
        "beginning of columns of probabilities named COLUMN(class) or COLUMN_class; repeatable.",
    ),
]
AtPrediction = Annotated[
    bool,
    Option("--teacher-at-prediction", help="The teachers will answer the rows to predict too."),
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
        max=MOST_NETWORKS,
        help="Networks to average; if not given, 5, and 1 for images above 16 pixels a side "
        "(grey ones above 32).",
    ),
]
Margin = Annotated[
    float,
    Option(
        min=0,
        help="Differences of the Brier score within ± this do not matter: no practical difference.",
    ),
]
Refit = Annotated[
    bool,
    Option(help="Train the winner again on all labels, those held out to judge it included."),
]
Seed = Annotated[int, Option(min=0, max=LARGEST_SEED, help="Seed of all draws.")]
Resume = Annotated[bool, Option(help="Resume a run that is in RUN.")]


def fit(
    data: DataArgument,
    out: Out,
    label: Label = None,
    ignore: Ignore = None,
    categorical: Categorical = None,
    missing_label: MissingLabel = None,
    all_classes: AllClasses = False,
    sheet: Sheet = None,
    size: Size = None,
    labels: Labels = None,
    teacher: Teacher = None,
    teacher_at_prediction: AtPrediction = False,
    pool: Pool = None,
    surrogate: SurrogateName = None,
    lam: LamText = "auto",
    risk: RiskName = "debiased",
    propensity: PropensityName = None,
    test_file: TestFile = None,
    hold_out: HoldOut = HOLD_OUT,
    steps: Steps = None,
    networks: Networks = None,
    margin: Margin = MARGIN,
    refit: Refit = True,
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

    Example: dessl fit answers.csv --label gold --teacher llm_label --out runs/answers

    Example: dessl fit mnist --labels 1000 --out runs/mnist-1000

    Example: dessl fit vectors.npy --labels labels.csv --out runs/vectors
    """
    options = dict(locals())
    from dessl.cli.fit_folder import FINISHED_ALREADY, is_finished, mark_finished, own_folder
    from dessl.cli.sources import fingerprint, training_data
    from dessl.recipes import recipe_for
    from dessl.recipes.defaults import DEFAULT_SURROGATE
    from dessl.recipes.trial import every_label, parts, refitted, run_trial, split
    from dessl.results.facts import TRAINING, read_facts
    from dessl.results.trial import trial_facts
    from dessl.safety import audit
    from dessl.training.progress import whole_bar

    started = time.perf_counter()
    if Path(data).is_dir() and out.resolve().is_relative_to(Path(data).resolve()):
        raise ValueError(
            f"--out {out} lies within {data}, where every folder is a class. Choose one elsewhere."
        )
    asked = _asked(options)
    if teacher or teacher_at_prediction:
        _fit_taught(options, asked)
        return
    if resume and is_finished(out, asked):
        say(FINISHED_ALREADY.format(out=out))
        _show(out, read_facts(out), as_json=as_json)
        return
    with resumable(out), noted_warnings() as notes:
        keep, labels_file = _labels(labels)
        rows = training_data(
            data, label=label, ignore=_ignored(data, ignore, propensity),
            categorical=categorical or (), size=size,
            missing_labels=missing_label or (), all_classes=all_classes,
            labels=labels_file, sheet=sheet,
        )  # fmt: skip
        if propensity is not None:
            rows = _weighed(rows, data, propensity, seed)
        test = None if test_file is None else _test_rows(test_file, data, rows)
        held_out = _held_out(rows, test_file, hold_out)
        train, test = split(rows, test=test, share=hold_out, labels=keep, seed=seed)
        found = audit(train, cheap=True, seed=seed)
        train = train.to(device_named(device))
        recipe_of = partial(
            recipe_for, surrogate=surrogate, lam=_lam(lam), risk=risk, teachers=_teachers(pool),
            steps=steps, seed=seed, networks=networks,
        )  # fmt: skip
        recipe = recipe_of(train)
        fits = 2 if refit and held_out else 1
        if not train.is_image:
            _one_thread()
        with (
            own_folder(out, _settings(recipe), resume=resume),
            whole_bar(fits * parts(recipe), shown=True),
        ):
            trial = run_trial(train, test, recipe, out=out / TRAINING)
            facts = trial_facts(
                trial,
                surrogate=surrogate or DEFAULT_SURROGATE,
                command=command(),
                seconds=time.perf_counter() - started,
                settings={"lam_asked_for": lam, **held_out},
                warnings=tuple(notes),
                margin=margin,
                share=held_out.get("hold_out", 1.0),
            )
            facts = replace(facts, audit=found)
            again = None
            if refit and held_out:
                whole = every_label(rows, labels=keep, seed=seed).to(train.device)
                lost = facts.verdict.outcome == "not used"
                again = refitted(
                    trial, whole, recipe_of(whole), complete_case=lost, out=out / TRAINING / REFIT
                )
            if again:
                facts = _refitted(facts, whole.n_labelled, time.perf_counter() - started)
            details = {"surrogate": facts.methods[-1].surrogate, "data_sha256": fingerprint(data)}
            _write(out, train, again or trial.fitted, facts, details)
            mark_finished(out, asked)
    _show(out, facts, as_json=as_json)


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    """All that a run depends on: its options, the contents of its files, and this version."""
    from dessl._version import __version__
    from dessl.cli.sources import fingerprint

    of_this_call = ("out", "resume", "as_json")
    asked = {name: value for name, value in options.items() if name not in of_this_call}
    texts = {value for value in asked.values() if isinstance(value, str)}
    files = {text: fingerprint(text) for text in sorted(texts)}
    return {"version": __version__, "options": asked, "files": files}


def _fit_taught(options: dict[str, Any], asked: dict[str, Any]) -> None:
    from dessl.cli.teaching import check_alone, fit_taught

    if not options["teacher"]:
        raise ValueError("--teacher-at-prediction needs a teacher. Pass --teacher COLUMN.")
    defaults = {name: one.default for name, one in inspect.signature(fit).parameters.items()}
    check_alone(options, defaults)
    fit_taught(options, asked)


def _show(out: Path, facts: "RunFacts", *, as_json: bool) -> None:
    """Show what a finished run found, and what to do next."""
    from dessl.results.facts import MODEL, REPORT

    if as_json:
        show_json(facts.as_dict())
        return
    show_facts(facts)
    if facts.audit:
        show(f"Audit:  {facts.audit.sentence}")
    show(f"Model:  {out / MODEL} ({_trained_on(facts)})")
    show(f"Report: {out / REPORT}")
    show(f"Next:   dessl predict {shlex.quote(str(out))} DATA --out predictions.csv")


def _ignored(source: str, ignore: list[str] | None, propensity: str | None) -> list[str]:
    """Columns to drop: a row's probability to get its label is no feature of it."""
    from dessl.cli.sources import kind_of
    from dessl.safety.propensity import ESTIMATES

    own = propensity is not None and propensity not in ESTIMATES and kind_of(source) == "table"
    return [*(ignore or ()), *([propensity] if own and propensity else [])]


def _weighed(rows: "SemiData", source: str, propensity: str, seed: int) -> "SemiData":
    """The data with the probability of each row to get its label, known or estimated."""
    from dessl.cli.sources import propensity_column
    from dessl.safety.propensity import ESTIMATES, propensity_of

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


def _held_out(data: "SemiData", test_file: str | None, share: float) -> dict[str, float]:
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


def _settings(recipe: "Recipe") -> dict[str, object]:
    pool = bool(recipe.teachers)
    return {
        "risk": recipe.plan.risk,
        "lam": recipe.lam,
        "networks": recipe.networks,
        "pool": pool,
    }


def _one_thread() -> None:
    """So small a network only waits for a second thread."""
    import torch

    torch.set_num_threads(1)


def _refitted(facts: "RunFacts", labels: int, seconds: float) -> "RunFacts":
    """The same measurements, with the model that is saved."""
    if facts.model is None:
        raise TypeError("the facts of a trial say which model is saved.")
    model = replace(facts.model, labels=labels, refitted=True)
    return replace(facts, model=model, seconds=round(seconds, 2))


def _trained_on(facts: "RunFacts") -> str:
    if not facts.model or not facts.model.refitted:
        return f"trained on {facts.data.labelled + facts.data.validation:,} labels"
    before = facts.data.labelled + facts.data.validation
    return (
        f"trained again on all {facts.model.labels:,} labels; the numbers above are of the model "
        f"before that, with {before:,}"
    )


def _teachers(pool: bool | None) -> "Teachers":
    from dessl.teachers import DEFAULT

    return "auto" if pool is None else DEFAULT if pool else None


def _labels(text: str | None) -> tuple[int | None, str | None]:
    """How many labels to keep, or the file of the labels; ./100 is a file named 100."""
    if text is not None and re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text), None
    return None, text


def _lam(text: str) -> "Lam":
    if text == "auto":
        return "auto"
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"--lam must be a number or 'auto'; got {text!r}.") from error


def _test_rows(test_file: str, source: str, data: "SemiData") -> "Part":
    """Read the rows to judge by, refusing those that are trained on."""
    from dessl.cli.sources import Expected, check_labels_present, new_rows
    from dessl.data import DataError

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
    from dessl.cli.sources import fingerprint

    if not (Path(one).exists() and Path(other).exists()):
        return False
    return Path(one).samefile(other) or fingerprint(one) == fingerprint(other)


def _equal(one: "Tensor", other: "Tensor") -> bool:
    import torch

    return one.dtype == other.dtype and torch.equal(one, other.cpu())


def _write(
    out: Path, data: "SemiData", fitted: "Fitted", facts: "RunFacts", details: dict[str, str | None]
) -> None:
    """Write both models, the facts and the report, in the place of those of an earlier end."""
    from dessl.cli.fit_folder import put_model
    from dessl.report.page import write_report
    from dessl.results.facts import MODEL, REPORT, TWIN, write_facts

    kept = (MODEL, fitted.model, fitted.lam)
    if facts.verdict.outcome == "not used":
        kept = (MODEL, fitted.complete_case, 0.0)
    for name, model, lam in ((TWIN, fitted.complete_case, 0.0), kept):
        more = {"lam": lam, "verdict": facts.verdict.sentence}
        put_model(out / name, _saved(data, fitted, model, {**details, **more}))
    write_facts(out, facts)
    write_report(out / REPORT, facts)


def _saved(
    data: "SemiData",
    fitted: "Fitted",
    model: "Predictor | PooledPredictor",
    details: dict[str, object],
) -> "SavedModel":
    from dessl.recipes.defaults import Architecture
    from dessl.saved import SavedModel

    architecture = fitted.recipe.model
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
