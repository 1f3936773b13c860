"""What ``dessl fit`` does: read, split, audit, train both models, evaluate, retrain, write.

The options are defined in ``dessl.cli.fit`` and passed on as a dict.
"""

import copy
import math
import re
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dessl._version import __version__
from dessl.cli.columns import ignored, propensity_column
from dessl.cli.errors import command, resumable
from dessl.cli.fit_folder import (
    FINISHED_ALREADY,
    drop_large_checkpoints,
    finished_facts,
    mark_finished,
    naming_options,
    own_folder,
    put_model,
)
from dessl.cli.groups import NamedRows, announced_groups, groups_of_test
from dessl.cli.new_rows import read_test_file
from dessl.cli.options import HOLD_OUT, Reading, device_named
from dessl.cli.output import noted_warnings, say, show_run
from dessl.cli.sources import fingerprint, training_data
from dessl.data import Part, SemiData
from dessl.data.formats.image_likeness import Likeness
from dessl.data.stored.tables import TableRows
from dessl.models.reduced import reduced_sides
from dessl.recipes import Fitted, Recipe, recipe_for
from dessl.recipes.architecture import Architecture
from dessl.recipes.recipe import Lam
from dessl.recipes.split import RowDesign, check_test, every_label, split
from dessl.recipes.trial import Trial, parts, refit_failure, refitted, run_trial
from dessl.report.page import write_report
from dessl.results.facts import (
    MODEL,
    REPORT,
    TRAINING,
    TWIN,
    ModelFacts,
    RunFacts,
    write_facts,
)
from dessl.results.trial import trial_facts
from dessl.safety import Audit, audit
from dessl.safety.propensity import ESTIMATES, propensity_of
from dessl.saved import SavedModel
from dessl.teachers import default_teachers
from dessl.teachers.evaluated import MOST_UNLABELLED
from dessl.teachers.neighbours import EXACT_UP_TO
from dessl.training.progress import whole_bar
from dessl.training.ranks import check_same_on_ranks, from_first, held_by_first, rank, ranks
from dessl.training.threads import one_thread

LOOKED_AT = 1000  # training images, about, that say whether they have colour
REFIT = "refit"  # folder of its runs, within that of training
OF_THIS_CALL = ("out", "resume", "as_json")  # options that a run does not depend on
Options = Mapping[str, Any]


class Rows(NamedTuple):
    """All rows; training rows; evaluation rows and their design; the share held out."""

    every: SemiData
    train: SemiData
    test: Part
    design: RowDesign
    held_out: dict[str, float]


def run_identity(options: Options) -> dict[str, Any]:
    """Everything a run depends on: its options, the contents of its files, and the version."""
    kept = {name: value for name, value in options.items() if name not in OF_THIS_CALL}
    texts = {value for value in kept.values() if isinstance(value, str)}
    files = {text: fingerprint(text) for text in sorted(texts)}
    return {"version": __version__, "options": kept, "files": files}


def fit_data(options: Options, identity: dict[str, Any]) -> None:
    """Train with and without the unlabelled rows, then write and show which is better.

    Args:
        options: Options of ``dessl fit``, by name.
        identity: Result of :func:`run_identity`; a finished run with the same one is shown, not
            retrained.
    """
    started, out = time.perf_counter(), options["out"]
    if ranks() > 1:
        check_same_on_ranks({**identity, "out": str(out)}, "the options and files of dessl fit")
    if options["resume"] and (before := from_first(partial(finished_facts, out, identity))):
        say(FINISHED_ALREADY.format(out=out))
        show_run(out, before, as_json=options["as_json"])
        return
    with resumable(out), naming_options(out, identity), noted_warnings() as notes:
        recipe_of = _recipes(options)
        rows = _rows(options)
        found = from_first(partial(_audit, rows, options))
        rows = _on(rows, device_named(options["device"]))
        recipe = recipe_of(rows.train)
        _say_limits(recipe, rows.train, notes)
        again = options["refit"] and bool(rows.held_out)
        with (
            held_by_first(
                partial(
                    own_folder,
                    out,
                    _settings(recipe),
                    resume=options["resume"],
                    identity=identity,
                )
            ),
            whole_bar((2 if again else 1) * parts(recipe), shown=True),
            one_thread(when=rows.every.x.ndim == 2 and len(rows.every) <= EXACT_UP_TO),
        ):
            trial = run_trial(rows.train, rows.test, recipe, design=rows.design, out=out / TRAINING)
            seconds = time.perf_counter() - started
            facts = from_first(partial(_facts, trial, rows, options, notes, seconds))
            facts, fitted = replace(facts, audit=found), trial.fitted
            if again:
                fitted, model = _refitted(trial, facts, rows, options, recipe_of)
                seconds = round(time.perf_counter() - started, 2)
                facts = replace(facts, model=model, seconds=seconds, warnings=tuple(notes))
            if rank() == 0:
                details = {
                    "data_sha256": identity["files"][options["data"]],
                    **_looks(rows.every, options["size"]),
                }
                _write(out, rows.train, fitted, facts, details)
                mark_finished(out, identity)
                drop_large_checkpoints(out)
                if isinstance(rows.every.stored, TableRows):
                    rows.every.stored.remove()
    show_run(out, facts, as_json=options["as_json"])


def _audit(rows: Rows, options: Options) -> Audit:
    """Audit all rows, those held out included, so that ``dessl audit`` gives the same answer."""
    keep, _ = _labels(options["labels"])
    seed, data = options["seed"], rows.every
    if keep is not None:
        data = every_label(data, labels=keep, seed=seed)
    if not rows.held_out:  # test rows from elsewhere are checked for copies
        data = copy.copy(data)
        data.test = rows.test
    return audit(data, cheap=True, seed=seed)


def _on(rows: Rows, device: torch.device) -> Rows:
    """The training rows on a device; the other parts share that copy of the features."""
    train, every = rows.train.to(device), copy.copy(rows.every)
    if rows.train.x is rows.every.x:
        every.x = train.x
    return rows._replace(every=every.to(device), train=train)


def _facts(
    trial: Trial, rows: Rows, options: Options, notes: Sequence[str], seconds: float
) -> RunFacts:
    """The facts of the trial, before retraining."""
    return trial_facts(
        trial,
        surrogate=options["surrogate"] or trial.fitted.recipe.default_surrogate,
        command=command(),
        seconds=seconds,
        settings={"lam_asked_for": options["lam"], **rows.held_out},
        warnings=tuple(notes),
        margin=options["margin"],
        share=rows.held_out.get("hold_out", 1.0),
    )


def _say_limits(recipe: Recipe, data: SemiData, notes: list[str]) -> None:
    """Print what the recipe leaves out: unlabelled rows, teachers, and pixels of the images."""
    if recipe.teachers and len(data.unlabelled_rows) > MOST_UNLABELLED:
        say(
            f"Teachers use {MOST_UNLABELLED:,} of the {len(data.unlabelled_rows):,} unlabelled "
            "rows, drawn at random."
        )
    if recipe.no_pool:
        say(recipe.no_pool)
    if recipe.reduced_to is not None:
        before = (data.x.shape[2], data.x.shape[3])
        height, width = reduced_sides(before, recipe.reduced_to)
        notes.append(  # printed at the end, and kept in the report
            f"Images are read at {before[0]} × {before[1]} pixels and reduced to {height} × "
            f"{width}: on a CPU, finer detail would take too long. Crop the images or use a GPU if "
            "it matters."
        )


def _recipes(options: Options) -> Callable[[SemiData], Recipe]:
    """The recipe that the options choose for these data."""
    lam_text, pool = options["lam"], options["pool"]
    try:
        lam: Lam = "auto" if lam_text == "auto" else float(lam_text)
    except ValueError as error:
        raise ValueError(f"--lam must be a number or 'auto'; got {lam_text!r}.") from error
    if lam != "auto" and not 0 <= lam < math.inf:
        raise ValueError(
            f"--lam must be 0 or more, and finite; got {lam_text}. Pass --lam 0.5, for example, or "
            "omit it to choose λ on held-out labels."
        )

    def recipe_of(data: SemiData) -> Recipe:
        return recipe_for(
            data,
            surrogate=options["surrogate"],
            lam=lam,
            risk=options["risk"],
            teachers="auto" if pool is None else default_teachers(data.x) if pool else None,
            steps=options["steps"],
            seed=options["seed"],
            networks=options["networks"],
            safe=options["safe"],
        )

    return recipe_of


def _refitted(
    trial: Trial,
    facts: RunFacts,
    rows: Rows,
    options: Options,
    recipe_of: Callable[[SemiData], Recipe],
) -> tuple[Fitted, ModelFacts]:
    """Retrain the winner on all labels; if that fails, keep the trial's model and say why."""
    if facts.model is None:
        raise TypeError("the facts of a trial say which model is saved.")
    keep, _ = _labels(options["labels"])
    whole = every_label(rows.every, labels=keep, seed=options["seed"])
    lost = facts.verdict.outcome == "not used"
    place = options["out"] / TRAINING / REFIT
    found = refitted(trial, whole, recipe_of(whole), complete_case=lost, out=place)
    if why := refit_failure(trial, found):
        warnings.warn(
            f"the model trained on {facts.model.labels:,} labels is kept, because with all "
            f"{whole.n_labelled:,} of them {why}",
            UserWarning,
            stacklevel=2,
        )
        return trial.fitted, facts.model
    return found, replace(facts.model, labels=whole.n_labelled, refitted=True)


def _rows(options: Options) -> Rows:
    """Read DATA and split it."""
    data, test_file, seed = options["data"], options["test_file"], options["seed"]
    keep, labels_file = _labels(options["labels"])
    propensity, reading = options["propensity"], Reading.typed_in(options)
    every = training_data(
        data,
        label=options["label"],
        ignore=ignored(data, options),
        categorical=options["categorical"] or (),
        size=options["size"],
        skip_damaged=options["skip_damaged"],
        missing_labels=options["missing_label"] or (),
        all_classes=options["all_classes"],
        labels=labels_file,
        reading=reading,
        stream=options["stream"],
        place=options["out"] / TRAINING,
        seed=seed,
    )
    if every.stored is not None:
        _say_stored(every, options)
    if options["group"] is not None:
        named = NamedRows.of(data, every, labels_file)
        every.groups = announced_groups(named, options["group"], reading=reading)
    if propensity is not None:
        every = _with_propensity(every, propensity, options)
    test, names = None, None
    if test_file is not None:
        skip = options["skip_damaged"]
        test, names = read_test_file(test_file, data, every, skip_damaged=skip)
    held_out = _held_out(every, test_file, options["hold_out"])
    divided = split(every, test=test, share=options["hold_out"], labels=keep, seed=seed)
    if test is not None and test_file is not None and options["group"] is not None:
        tested = NamedRows(test_file, test, names)
        groups = groups_of_test(options["group"], tested, named, reading)
        check_test(test, groups)
        divided = divided._replace(design=RowDesign(groups=groups))
    if divided.design.propensity is not None:
        warnings.warn(
            "estimates and comparisons weight the held-out labels by 1/π. The report's sections on "
            "calibration and on single classes do not: they describe the labelled rows.",
            UserWarning,
            stacklevel=2,
        )
    return Rows(every, *divided, held_out)


def _say_stored(every: SemiData, options: Options) -> None:
    """Print what stays on disk; refuse options that do not work with such rows."""
    for name in ("propensity", "group"):
        if options[name] is not None:
            raise ValueError(
                f"--{name} needs all rows in memory, but this file is read in blocks. Pass "
                "--no-stream."
            )
    say(
        f"{every.n_stored:,} unlabelled rows stay on disk; {len(every.unlabelled_rows):,}, drawn "
        "at random, are in memory for the teachers, the audit and the evaluation."
    )


def _labels(text: str | None) -> tuple[int | None, str | None]:
    """The number of labels to keep, or the file of labels; ./100 is a file named 100."""
    if text is not None and re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text), None
    return None, text


def _with_propensity(rows: SemiData, propensity: str, options: Options) -> SemiData:
    """The data with each row's probability of being labelled, known or estimated."""
    given: Any = propensity
    if propensity not in ESTIMATES:
        reading = Reading.typed_in(options)
        named = NamedRows.of(options["data"], rows, _labels(options["labels"])[1])
        given = propensity_column(
            named.source, propensity, len(rows), reading=reading, beside=named.beside
        )
    found = propensity_of(rows, given, seed=options["seed"])
    say(found.sentence)
    return found.on(rows)


def _held_out(data: SemiData, test_file: str | None, share: float) -> dict[str, float]:
    """The share of rows held out, if any, as a setting; refuse --hold-out if it has no effect."""
    if test_file is None and data.test is None:
        return {"hold_out": share}
    if share != HOLD_OUT:
        evaluated_on = "the test set of this data set" if test_file is None else "--test-file"
        raise ValueError(
            "--hold-out is the share of DATA to hold out, but these models are evaluated on "
            f"{evaluated_on}. Omit it."
        )
    return {}


def _settings(recipe: Recipe) -> dict[str, object]:
    return {
        "risk": recipe.plan.risk,
        "lam": recipe.lam,
        "networks": recipe.networks,
        "pool": bool(recipe.teachers),
    }


def _looks(data: SemiData, size: int | None) -> dict[str, Any]:
    """What the images of a folder look like, for notes on new ones; nothing for other data."""
    if not data.is_image or data.row_names is None:
        return {}
    images = data.x[:: max(1, len(data) // LOOKED_AT)].cpu().numpy()
    return {"looks": Likeness.of_images(images, own_shape=size is None)._asdict()}


def _write(
    out: Path, data: SemiData, fitted: Fitted, facts: RunFacts, more: Mapping[str, Any]
) -> None:
    """Write both models, the facts and the report, replacing those of an earlier run."""
    architecture = fitted.recipe.model
    if not isinstance(architecture, Architecture):
        raise TypeError("a default recipe has a network from dessl.MODELS.")
    kept = (MODEL, fitted.model, fitted.lam)
    if facts.verdict.outcome == "not used":
        kept = (MODEL, fitted.complete_case, 0.0)
    details = {
        "surrogate": facts.methods[-1].surrogate,
        **more,
        "verdict": facts.verdict.sentence,
    }
    for name, model, lam in ((TWIN, fitted.complete_case, 0.0), kept):
        saved = SavedModel(
            model=model,
            class_names=tuple(data.class_names),
            shape=tuple(data.x.shape[1:]),
            image=data.is_image,
            architecture=architecture,
            encoding=data.encoding,
            bits=data.bits,
            details={**details, "lam": lam},
        )
        put_model(out / name, saved)
    write_facts(out, facts)
    write_report(out / REPORT, facts)
