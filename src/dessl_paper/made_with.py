"""How the runs of a reproduction were made: the settings that their numbers depend on.

The setting of most methods comes first, followed by the exceptions in brackets.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias

from dessl.results.record import Record
from dessl.risk import RISKS
from dessl_paper.results import Results, diverged
from dessl_paper.wording import listed

Settings: TypeAlias = Mapping[str, Any]
Repeats: TypeAlias = Literal["splits", "models"]

OPTIMISERS = {"sgd": "SGD", "adamw": "AdamW", "muon": "Muon"}

SCHEDULES: dict[str, Callable[[Settings], str]] = {
    "constant": lambda _: "constant",
    "cosine": lambda _: "cosine to 0",
    "fixmatch_cosine": lambda _: "FixMatch's cosine",
    "linear": lambda own: f"linear to {own['end']:g}",
    "steps": lambda own: f"times {own['factor']:g} after {_words(own['at'])} of the run",
    "warm_up": lambda own: f"{own['warm_up']:,} steps of warm-up, then {_schedule(own['then'])}",
    "ramp": lambda own: f"rising over the first {own['until']:g} of the run",
    "linear_ramp": lambda own: f"rising linearly over the first {own['until']:g} of the run",
}


def repeats_note(results: Results, over: Repeats) -> str:
    """What the numbers are averaged over: several splits, or several trained models."""
    most = max(Counter((r.data, r.labels, r.method, r.lam) for r in results.records).values())
    if over == "models":
        if most == 1:
            return "Only one model was trained, so there is no interval over models."
        return (
            "Our numbers are means over models, each trained on its own split, ± half of the 95 % "
            "t-interval; the number of models is in brackets."
        )
    if most == 1:
        return "Only one split was run, so there is no interval and no p-value."
    return (
        "Our numbers are means over splits ± half of the 95 % t-interval; the number of splits is "
        "in brackets. Differences are paired by split."
    )


def run_count(results: Results) -> str:
    """How many of the planned runs there are, and how many diverged."""
    experiment, done = results.experiment, len(results.records)
    lams = sum(len(method.lams) for method in experiment.methods)
    asked = len(experiment.data) * lams * experiment.seeds
    dead = sum(map(diverged, results.records))
    runs = "run" if max(done, asked) == 1 else "runs"
    text = f"{done} {runs}" if done >= asked else f"{done} of {asked} {runs}"
    return f"{text}, {dead} of them diverged" if dead else text


def made_with(results: Results) -> str:
    """Profile, runs, network, steps, seconds, device, versions and commit in one line."""
    records = results.records
    model = dict(results.experiment.model)
    network = model.pop("name", "")
    seconds = sum(float(r.training.get("seconds") or 0) for r in records)
    parts = [
        f"Profile {results.experiment.profile}",
        run_count(results),
        f"network {described(network, model)}" if network else "",
        _steps(results),
        f"{_duration(seconds)} summed over the runs{_side_by_side(records)}",
        f"on {_each(records, 'device')}",
        f"dessl {_each(records, 'dessl')}",
        f"torch {_each(records, 'torch')}",
        f"commit {_each(records, 'commit', 12)}",
    ]
    return "; ".join(part for part in parts if part) + "."


def foot_lines(results: Results) -> list[str]:
    """The notes of the experiment's file, how the runs were trained, and with what versions."""
    lines = [f"In the paper: {results.experiment.paper}."] if results.experiment.paper else []
    lines += [*results.experiment.notes, training_line(results), made_with(results)]
    return [line for line in lines if line]


def _steps(results: Results) -> str:
    """Steps of most methods and the exceptions; a range if data sets differ."""
    steps = {title: _steps_of(results, method) for method, title in results.methods.items()}
    if all(len(found) < 2 for found in steps.values()):
        return shared({title: f"{n:,} steps" for title, found in steps.items() for n in found})
    every = sorted(set().union(*steps.values()))
    return f"{every[0]:,} to {every[-1]:,} steps"


def _steps_of(results: Results, method: str) -> set[int]:
    runs = [record.training for record in results.records if record.method == method]
    return {training["steps"] for training in runs if training.get("steps")}


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _side_by_side(records: tuple[Record, ...]) -> str:
    """In how many processes runs were trained side by side; older records do not say."""
    most = max(record.made_with.get("processes", 1) for record in records)
    return f", in up to {most} processes at a time" if most > 1 else ""


def _each(records: tuple[Record, ...], fact: str, most: int = 60) -> str:
    found = {str(record.made_with.get(fact) or "unknown")[:most] for record in records}
    return listed(sorted(found))


def training_line(results: Results) -> str:
    """How the runs were trained, and their unlabelled terms; empty if the records do not say."""
    first = {record.method: record for record in reversed(results.records)}
    plans = {title: _plan(first[method]) for method, title in results.methods.items()}
    parts = [*_parts({title: plan for title, plan in plans.items() if plan}), _terms(results)]
    text = "; ".join(part for part in parts if part)
    return f"Training: {text}." if text else ""


def shared(texts: Mapping[str, str]) -> str:
    """The most frequent text, and the exceptions in brackets; empty texts are skipped.

    >>> shared({"a": "64 rows", "b": "64 rows", "c": "512 rows", "d": ""})
    '64 rows (c: 512 rows)'
    """
    counts = Counter(text for text in texts.values() if text)
    if not counts:
        return ""
    (usual, _), *others = counts.most_common()
    exceptions = [
        f"{listed(name for name, other in texts.items() if other == text)}: {text}"
        for text, _ in others
    ]
    return f"{usual} ({'; '.join(exceptions)})" if exceptions else usual


def described(name: str, options: Settings) -> str:
    """A name with its options in words.

    >>> described("fixmatch", {"threshold": 0.95, "targets": "apart", "hard": True})
    'fixmatch with threshold 0.95, targets apart and hard'
    """
    words = [
        key.replace("_", " ") if value is True else f"{key.replace('_', ' ')} {_words(value)}"
        for key, value in options.items()
    ]
    return f"{name} with {listed(words)}" if words else name


def _parts(plans: Mapping[str, Settings]) -> Iterator[str]:
    """One part for each setting; settings that no method uses are skipped."""
    settings: list[tuple[str, Callable[[Settings], str], str]] = [
        ("", _optimiser, ""),
        ("learning rate ", lambda plan: _words(plan.get("learning_rate", "")), ""),
        ("schedule: ", lambda plan: _schedule(plan.get("schedule", "")), ""),
        ("weight decay ", lambda plan: _words(plan.get("weight_decay", "")), ""),
        ("batches of ", _batch, ""),
        ("EMA of the weights with decay ", lambda plan: _words(plan.get("ema") or "none"), "none"),
        ("λ ", _ramp, "constant"),
        ("in ", lambda plan: plan.get("precision", ""), ""),
    ]
    for before, text_of, nothing in settings:
        text = shared({title: text_of(plan) for title, plan in plans.items()})
        if text not in ("", nothing):
            yield before + text


def _plan(record: Record) -> dict[str, Any]:
    """A run's plan with its risk; the toy example's with the names of the others."""
    plan, toy = record.settings.get("plan"), record.settings.get("toy")
    if toy:
        plan = {
            "optimiser": "sgd",
            "learning_rate": toy["learning_rate"],
            "schedule": {"name": "linear", "end": 0.0},
            "labelled_batch": toy["batch"],
            "unlabelled_batch": toy["batch"],
        }
    return {**plan, "risk": record.risk} if plan else {}


def _optimiser(plan: Settings) -> str:
    name = str(plan.get("optimiser", ""))
    if name == "adamw" or not plan.get("momentum"):  # AdamW's plan has a momentum that it ignores
        return OPTIMISERS.get(name, name)
    kind = "Nesterov's momentum" if plan.get("nesterov") else "momentum"
    return f"{OPTIMISERS.get(name, name)} with {kind} {plan['momentum']:g}"


def _schedule(schedule: Settings | str) -> str:
    own = {"name": schedule} if isinstance(schedule, str) else schedule
    return SCHEDULES[own["name"]](own) if own["name"] else ""


def _batch(plan: Settings) -> str:
    if "labelled_batch" not in plan:
        return ""
    text = f"{plan['labelled_batch']:,} labelled"
    if not RISKS[plan["risk"]].unlabelled:
        return f"{text} rows"
    text += f" + {plan['unlabelled_batch']:,} unlabelled rows"
    return f"{text}, the latter drawn from all rows" if plan.get("include_labelled") else text


def _ramp(plan: Settings) -> str:
    return _schedule(plan.get("ramp", "")) if RISKS[plan["risk"]].unlabelled else ""


def _terms(results: Results) -> str:
    """The options of the unlabelled terms; terms without options are skipped.

    A probe's terms are not used in training: they are computed with a trained model.
    """
    probed = list(results.experiment.settings.get("terms", ()))
    terms = probed or [_term(one) for one in results.records if RISKS[one.risk].unlabelled]
    names: dict[str, list[str]] = {}
    for term in terms:
        options = {key: value for key, value in term.items() if key not in ("name", "as")}
        name = str(term.get("as", term.get("name"))).replace("_", " ")
        group = names.setdefault(described("", options), [])
        if options and name not in group:
            group.append(name)
    named = [f"{listed(group)}{options}" for options, group in names.items() if group]
    if not named:
        return ""
    kind = "unlabelled terms" if sum(map(len, names.values())) > 1 else "unlabelled term"
    return f"{kind}{' examined' if probed else ''}: {'; '.join(named)}"


def _term(record: Record) -> Settings:
    """The unlabelled term of a run; the toy example's pseudo-labels have the plan's threshold."""
    term = record.settings.get("surrogate") or {}
    if isinstance(term, str):
        toy = record.settings.get("toy", {})
        own = {"threshold": toy["threshold"]} if term == "pseudo_label" and toy else {}
        return {"name": term, **own}
    return dict(term)


def _words(value: object) -> str:
    if isinstance(value, list | tuple):
        return listed(map(_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
