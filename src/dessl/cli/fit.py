"""``dessl fit``: from a file to a trained model, its twin, and whether unlabelled data helped."""

import json
import shlex
import shutil
import time
from pathlib import Path

import torch

from dessl._files import write_whole
from dessl.cli import fit_options as options
from dessl.cli.device import device_named
from dessl.cli.errors import command, resumable, writable_folder
from dessl.cli.options import AsJson, DataArgument
from dessl.cli.output import noted_warnings, show, show_facts, show_json
from dessl.cli.sources import Expected, fingerprint, new_rows, training_data
from dessl.data import SemiData
from dessl.experiments.trial import HeldOut, Trial, run_trial, split
from dessl.recipes import Predictor, Recipe, recipe_for
from dessl.recipes.defaults import Architecture, Lam
from dessl.report.facts import RunFacts
from dessl.report.folder import MODEL, REPORT, TRAINING, TWIN, write_facts
from dessl.report.page import write_report
from dessl.report.trial import trial_facts
from dessl.saved import SavedModel, save_model


def fit(
    data: DataArgument,
    out: options.Out,
    label: options.Label = None,
    ignore: options.Ignore = None,
    categorical: options.Categorical = None,
    size: options.Size = None,
    labels: options.Labels = None,
    surrogate: options.SurrogateName = "pseudo_label",
    lam: options.Lam = "auto",
    risk: options.RiskName = "debiased",
    test_file: options.TestFile = None,
    hold_out: options.HoldOut = 0.2,
    steps: options.Steps = None,
    networks: options.Networks = None,
    seed: options.Seed = 0,
    device: options.Device = "auto",
    resume: options.Resume = True,
    as_json: AsJson = False,
) -> None:
    """Train on labelled and unlabelled rows, and on the labelled ones alone; say which is better.

    A row without a label has an empty cell in the label column, or -1 in an
    npz file's y, or lies in the folder "unlabelled".

    Example: dessl fit people.csv --label outcome --out runs/people

    Example: dessl fit scans/ --surrogate fixmatch --lam 0.5 --out runs/scans

    Example: dessl fit mnist --labels 1000 --out runs/mnist
    """
    started = time.perf_counter()
    if Path(data).is_dir() and out.resolve().is_relative_to(Path(data).resolve()):
        raise ValueError(
            f"--out {out} lies within {data}, where every folder is a class. Choose one elsewhere."
        )
    with resumable(out), noted_warnings() as notes:
        rows = training_data(
            data, label=label, ignore=ignore or (), categorical=categorical or (), size=size
        )
        test = _test_rows(test_file, rows)
        train, test = split(rows, test=test, share=hold_out, labels=labels, seed=seed)
        train = train.to(device_named(device))
        recipe = recipe_for(
            train, surrogate=surrogate, lam=_lam(lam), risk=risk, steps=steps, seed=seed,
            members=networks,
        )  # fmt: skip
        trial = _trained(train, test, recipe, out, resume=resume)
        facts = trial_facts(
            trial,
            surrogate=surrogate,
            command=command(),
            seconds=time.perf_counter() - started,
            settings={"surrogate": surrogate, "lam_asked_for": lam, "hold_out": hold_out},
            warnings=tuple(notes),
        )
        details = {"surrogate": surrogate, "data_sha256": fingerprint(data)}
        _write(out, trial, facts, details)
    if as_json:
        show_json(facts.as_dict())
        return
    show_facts(facts)
    show(f"Model:  {out / MODEL}")
    show(f"Report: {out / REPORT}")
    show(f"Next:   dessl predict {shlex.quote(str(out))} DATA --out predictions.csv")


def _trained(train: SemiData, test: HeldOut, recipe: Recipe, out: Path, *, resume: bool) -> Trial:
    _prepare(out, resume=resume)
    _claim(out, recipe)
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


def _test_rows(test_file: str | None, data: SemiData) -> HeldOut | None:
    if test_file is None:
        return None
    rows = new_rows(test_file, Expected.of(data))
    return HeldOut(rows.x, rows.y)


def _prepare(out: Path, *, resume: bool) -> None:
    """Make the folder, refusing one that holds something else or, with --no-resume, a run."""
    if (out / TRAINING).exists() and not resume:
        raise FileExistsError(
            f"{out} holds a run already. Leave --no-resume out to go on with it, or choose another "
            "folder."
        )
    for name in (MODEL, TWIN):
        if (out / name).exists() and not (out / TRAINING).exists():
            raise FileExistsError(
                f"{out / name} is there already and is of no run. Choose another folder."
            )
    writable_folder(out)


def _claim(out: Path, recipe: Recipe) -> None:
    """Note which run the folder is of, or refuse to go on with another one.

    What is different within a network's training is found there; here is what is beside it.
    """
    now = {"risk": recipe.plan.risk, "lam": recipe.lam, "networks": recipe.members}
    place = out / TRAINING / "settings.json"
    if not place.exists():
        write_whole(place, json.dumps(now) + "\n")
    there = json.loads(place.read_text(encoding="utf-8"))
    changed = [
        f"{name}: {there.get(name)} there, {now[name]} now"
        for name in now
        if there.get(name) != now[name]
    ]
    if changed:
        raise FileExistsError(
            f"{out} holds another run ({'; '.join(changed)}). Choose another folder, or fit with "
            "what that run was begun with."
        )


def _write(out: Path, trial: Trial, facts: RunFacts, details: dict[str, str | None]) -> None:
    """Write both models, the facts and the report, in the place of those of an earlier end."""
    fitted = trial.fitted
    for name, model, lam in ((TWIN, fitted.complete_case, 0.0), (MODEL, fitted.model, fitted.lam)):
        more = {"lam": lam, "verdict": facts.verdict.sentence}
        _replace(out / name, _saved(trial, model, {**details, **more}))
    write_facts(out, facts)
    write_report(out / REPORT, facts)


def _saved(trial: Trial, model: Predictor, details: dict[str, object]) -> SavedModel:
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


def _replace(place: Path, saved: SavedModel) -> None:
    fresh = place.with_name(f".{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    save_model(fresh, saved)
    if place.exists():
        shutil.rmtree(place)
    fresh.rename(place)
