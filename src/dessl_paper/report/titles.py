"""What a reproduction is called: the data as they are, and the line that says how it was made."""

from collections import Counter

from dessl.results.record import Record
from dessl_paper.report.results import Block, Results, diverged
from dessl_paper.report.trained_with import described, shared, training_line
from dessl_paper.report.wording import listed


def data_title(results: Results, block: Block) -> str:
    """A block in words, with what is not the publisher's data said."""
    first = results.of(block)[0]
    setting = first.settings.get("data") or {}
    said = [first.data]
    if block.labels:
        said.append(f"{block.labels:,} labels")
    if setting.get("label_noise"):
        said.append(f"{setting['label_noise']:.0%} of the labels redrawn".replace("%", " %"))
    if setting.get("rows"):
        said.append(f"cut to {setting['rows']:,} rows")
    return ", ".join(said)


def located(results: Results, block: Block, text: str) -> str:
    """A sentence with the data set that it is about before it, where there are several."""
    if len(results.blocks) == 1:
        return text[:1].upper() + text[1:]
    return f"{data_title(results, block)}: {text}"


def title(results: Results) -> str:
    """The experiment's title, with a word on data that are not the publisher's."""
    names = sorted({record.data for record in results.records})
    odd = [name for name in names if "(" in name]
    if any((record.settings.get("data") or {}).get("rows") for record in results.records):
        odd.append("cut short")
    warned = f" [{', '.join(odd)}]" if odd else ""
    return f"{results.experiment.get('title', results.experiment['name'])}{warned}"


def splits_note(results: Results) -> str:
    """What the numbers are means of."""
    most = max(Counter((r.data, r.labels, r.method, r.lam) for r in results.records).values())
    if results.shape == "probe":  # whose splits are of the test rows
        if most == 1:
            return "One model was trained: there is no interval over models."
        return (
            "Ours is the mean ± half of the 95 % t-interval over models, each trained on its own "
            "split, with their number in brackets."
        )
    if most == 1:
        return "One split was run: there is no interval and no p-value."
    return (
        "Ours is the mean ± half of the 95 % t-interval over splits, with their number in "
        "brackets; differences are paired by split."
    )


def run_count(results: Results) -> str:
    """How many runs there are, of how many, and how many diverged."""
    experiment, done = results.experiment, len(results.records)
    lams = sum(len(method["lams"]) for method in experiment.get("methods", ()))
    asked = len(experiment.get("data", ())) * lams * experiment.get("seeds", 1)
    dead = sum(map(diverged, results.records))
    runs = "run" if max(done, asked) == 1 else "runs"
    text = f"{done} {runs}" if done >= asked else f"{done} of {asked} {runs}"
    return f"{text}, {dead} of them diverged" if dead else text


def made_with(results: Results) -> str:
    """Profile, runs, network, steps, seconds, device, versions and commit in one line."""
    records = results.records
    model = dict(results.experiment.get("model", {}))
    network = model.pop("name", "")
    seconds = sum(float(r.training.get("seconds") or 0) for r in records)
    parts = [
        f"Profile {results.experiment.get('profile', '?')}",
        run_count(results),
        f"network {described(network, model)}" if network else "",
        _steps(results),
        f"{_duration(seconds)} in all",
        f"on {_each(records, 'device')}",
        f"dessl {_each(records, 'dessl')}",
        f"torch {_each(records, 'torch')}",
        f"commit {_each(records, 'commit', 12)}",
    ]
    return "; ".join(part for part in parts if part) + "."


def foot_lines(results: Results) -> list[str]:
    """What the experiment's file says, how the runs were trained, and what they were made with."""
    where = results.experiment.get("paper")
    lines = [f"In the paper: {where}."] if where else []
    lines += [*results.experiment.get("notes", ()), training_line(results), made_with(results)]
    return [line for line in lines if line]


def _steps(results: Results) -> str:
    """Steps of most methods and of those that differ; from least to most where data sets do."""
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


def _each(records: tuple[Record, ...], fact: str, most: int = 60) -> str:
    found = {str(record.made_with.get(fact) or "unknown")[:most] for record in records}
    return listed(sorted(found))
