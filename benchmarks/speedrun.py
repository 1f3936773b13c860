"""The leaderboard of docs/speedrun.md, made from the committed logs of runs on CIFAR-10.

Reads every log of a run with 4,000, 250 or 40 labels that was evaluated on the test rows, whatever
its method, and the runs of image_labels.py; groups them by setting; writes
benchmarks/results/speedrun.json and speedrun.md. A log without one of the FIELDS is an error.

    PYTHONPATH=src python benchmarks/speedrun.py
"""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import image_labels

ROOT = Path(__file__).parents[1]
FILE = ROOT / "benchmarks" / "results" / "speedrun.json"
ENTRIES = ROOT / "benchmarks" / "results" / "speedrun"  # every file in it is a log
ELSEWHERE = ("benchmarks/results/*.json", "results/fixmatch-cifar10*/runs/*.json")
# What a log must have; a "/" leads into a table.
FIELDS = (
    *("data", "labels", "method", "title", "seed", "training/seconds", "made_with/device"),
    *("settings/model/name", "settings/surrogate", "settings/plan/steps"),
    *(f"settings/plan/{name}" for name in ("optimiser", "learning_rate", "weight_decay")),
)
SEEDS, LEVEL = frozenset(range(5)), 0.01
GIB_OF_CUDA = 2.0  # a process alone on its GPU has less than this besides its tensors


class Track(NamedTuple):
    """One category: the fastest run whose mean accuracy reaches the target wins."""

    labels: int
    target: float  # accuracy, %
    goal: str


TRACKS = (
    Track(4000, 95.44, "5 min"),
    Track(4000, 96.0, "10 min"),
    Track(250, 94.0, "–"),
    Track(40, 90.0, "–"),
)


def p_value(accuracies: Sequence[float], target: float) -> float | None:
    """p-value that the mean over seeds is at least the target, one-sided; None for one seed.

    >>> round(p_value([95.6, 95.7, 95.5, 95.6, 95.6], 95.44), 4)
    0.0036
    """
    if len(accuracies) < 2:
        return None
    from scipy import stats

    mean, deviation = statistics.mean(accuracies), statistics.stdev(accuracies)
    if deviation == 0:
        return 0.0 if mean > target else 1.0
    t = (mean - target) / (deviation / math.sqrt(len(accuracies)))
    return float(stats.t.sf(t, len(accuracies) - 1))


Log = Mapping[str, Any]


def logs() -> Iterator[tuple[Path, Log]]:
    """Every committed log of a run on CIFAR-10 that was evaluated on the test rows."""
    for file in sorted(ENTRIES.rglob("*.json")):
        log = read(file)
        if not on_held_out_labels(log):
            yield file, checked(file, log)
    for pattern in ELSEWHERE:
        for file in sorted(ROOT.glob(pattern)):
            log = read(file)
            if is_entry(log):
                yield file, checked(file, log)
    for record in image_labels.read_results().values():
        if any(record["labels"] == track.labels for track in TRACKS):
            yield image_labels.RESULTS, checked(image_labels.RESULTS, as_log(record))


def read(file: Path) -> Any:
    """A file's content."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise SystemExit(f"{file}: expected JSON; got {error}.") from error


def on_held_out_labels(log: Any) -> bool:
    """Whether the run was part of a search and never saw the test rows."""
    return isinstance(log, dict) and "held-out" in log.get("judged_on", "")


def is_entry(log: Any) -> bool:
    """Whether a file among other results is a log of a run with the data of the speed run."""
    if not (isinstance(log, dict) and "settings" in log and log.get("data") == "cifar10"):
        return False
    of_a_track = any(log.get("labels", track.labels) == track.labels for track in TRACKS)
    return of_a_track and not on_held_out_labels(log)


def as_log(record: Log) -> dict[str, Any]:
    """A run of image_labels.py as a log."""
    form = image_labels.FORMS[record["form"]]
    return {
        "data": "cifar10",
        "labels": record["labels"],
        "method": record["form"],
        "title": form.title,
        "seed": record["draw"],
        "settings": {
            "model": image_labels.NETWORKS[record["network"]],
            "surrogate": form.surrogate,
            "plan": record["plan"],
        },
        "metrics": record.get("metrics", {}),
        "training": {key: record[key] for key in ("seconds", "diverged")},
        "made_with": record["machine"],
    }


def checked(file: Path, log: Log) -> Log:
    """The log, if it has every field and its data and labels are those of the speed run."""
    missing = [path for path in FIELDS if not _has(log, path)]
    measured = _has(log, "metrics/accuracy") or _has(log, "as_it_is/accuracy")
    if not missing and not measured and not _diverged(log):
        missing = ["metrics/accuracy"]
    if missing:
        raise SystemExit(f"{file}: the log lacks {', '.join(missing)}. See docs/speedrun.md.")
    if log["data"] != "cifar10" or all(log["labels"] != track.labels for track in TRACKS):
        raise SystemExit(
            f"{file}: expected data 'cifar10' and {_numbers()} labels; got {log['data']!r} and "
            f"{log['labels']}. Remove the file."
        )
    return log


def _has(log: Any, path: str) -> bool:
    for name in path.split("/"):
        if not isinstance(log, Mapping) or name not in log:
            return False
        log = log[name]
    return True


def _diverged(log: Log) -> bool:
    return bool(log["training"].get("diverged"))


def _numbers() -> str:
    *others, last = dict.fromkeys(f"{track.labels:,}" for track in TRACKS)
    return f"{', '.join(others)} or {last}"


def entries(found: Sequence[tuple[Path, Log]]) -> list[dict[str, Any]]:
    """The runs grouped by setting, the most accurate first, for each number of labels."""
    together: dict[str, list[tuple[Path, Log]]] = {}
    for file, log in found:
        settings = log["settings"]
        plan = {key: value for key, value in settings["plan"].items() if key != "seed"}
        alike = (log["labels"], log["method"], settings["model"], settings["surrogate"], plan)
        timed = "seconds_from_command" in log  # else one without it would spoil the others
        key = json.dumps([*alike, timed, log["made_with"]["device"]], sort_keys=True)
        together.setdefault(key, []).append((file, log))
    rows = [entry(group) for group in together.values()]
    return sorted(rows, key=lambda row: (-row["labels"], -row["accuracy, %"]))


def entry(group: Sequence[tuple[Path, Log]]) -> dict[str, Any]:
    """One row of the board."""
    some = [log for _, log in group]
    first = some[0]
    plan, model = first["settings"]["plan"], first["settings"]["model"]
    accuracies = by_seed(some)
    seconds = [log.get("seconds_from_command", log["training"]["seconds"]) for log in some]
    mirrored = [100 * log["mirrored"]["accuracy"] for log in some if "mirrored" in log]
    return {
        "labels": first["labels"],
        "method": first["title"],
        "network": f"{model['name']}{_network(model)}",
        "steps": plan["steps"],
        "optimiser": f"{plan['optimiser']}, rate {plan['learning_rate']:g}, "
        f"decay {plan['weight_decay']:g}",
        "GPU": first["made_with"]["device"],
        "seeds": len({log["seed"] for log in some}),
        "trainings": len(some),
        "seconds": round(statistics.mean(seconds), 1),
        "longest": round(max(seconds), 1),
        "accuracy, %": round(statistics.mean(accuracies), 2) if accuracies else 0.0,
        "± (95 %)": _half_width(accuracies),
        "mirrored, %": round(statistics.mean(mirrored), 2) if len(mirrored) == len(some) else None,
        "p": {
            f"{track.target:g}": p_value(accuracies, track.target)
            for track in TRACKS
            if track.labels == first["labels"]
        },
        "misses": list(missed(some)),
        "logs": list(dict.fromkeys(str(file.relative_to(ROOT)) for file, _ in group)),
    }


def missed(group: Sequence[Log]) -> Iterator[str]:
    """The rules that an entry does not meet, the target aside."""
    found = SEEDS & {log["seed"] for log in group}
    if found != SEEDS:
        yield f"{len(found)} of {len(SEEDS)} seeds"
    if diverged := sum(map(_diverged, group)):
        yield f"{diverged} of {len(group)} trainings diverged"
    if any("seconds_from_command" not in log for log in group):
        yield "timed from the start of training"
    others = [log.get("gpu_gib_of_others") for log in group]
    if None in others:
        yield "other use of the GPU not recorded"
    elif (most := max(others)) > GIB_OF_CUDA:
        yield f"GPU shared ({most:.1f} GiB)"
    if any((log["method"], log["labels"]) in image_labels.SELECTED_ON for log in group):
        yield "method selected on the test set"


def by_seed(group: Sequence[Mapping[str, Any]]) -> list[float]:
    """Accuracy in percent, without mirroring; for a seed trained twice, the mean of both."""
    seeds: dict[int, list[float]] = {}
    for log in (log for log in group if not _diverged(log)):
        accuracy = log["as_it_is" if "as_it_is" in log else "metrics"]["accuracy"]
        seeds.setdefault(log["seed"], []).append(100 * accuracy)
    return [statistics.mean(values) for values in seeds.values()]


def _network(model: Mapping[str, Any]) -> str:
    layers = ", 11 layers" if "residuals" in model else ""
    width = f", width {model['width']}" if "width" in model else ""
    start = model.get("contrastive_steps")
    return layers + width + (f", after {start:,} contrastive steps" if start else "")


def _half_width(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    from scipy import stats

    error = statistics.stdev(values) / math.sqrt(len(values))
    return round(float(stats.t.ppf(0.975, len(values) - 1)) * error, 2)


def holder(track: Track, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The fastest entry whose mean reaches the target by the rules; None if there is none."""
    name = f"{track.target:g}"
    able = [row for row in rows if row["labels"] == track.labels and counts(row, name)]
    return min(able, key=lambda row: row["seconds"], default=None)


def counts(row: Mapping[str, Any], target: str) -> bool:
    """Whether an entry reaches a target, with p < 0.01, and meets all other rules."""
    p = row["p"][target]
    return not row["misses"] and p is not None and p < LEVEL


def board(rows: Sequence[Mapping[str, Any]]) -> str:
    """The records, then every entry, as Markdown."""
    lines = [
        "# Speed run on CIFAR-10: the leaderboard",
        "",
        "Made from the committed logs by `python benchmarks/speedrun.py`; the rules are in "
        "[docs/speedrun.md](../../docs/speedrun.md). p is from a one-sided t-test that the mean "
        "over seeds reaches the target; a seed trained twice has the mean of both.",
        "",
    ]
    lines += ["| labels | target | goal | record |", "|---:|---:|---:|:---|"]
    for track in TRACKS:
        best = holder(track, rows)
        said = f"{best['method']}, {best['seconds']:.0f} s" if best else "none"
        lines.append(f"| {track.labels:,} | {track.target:g} % | {track.goal} | {said} |")
    for labels in dict.fromkeys(track.labels for track in TRACKS):
        some = [row for row in rows if row["labels"] == labels]
        lines += ["", f"**{labels:,} labels**", ""]
        lines += _entries(some, labels) if some else ["No entry yet."]
    return "\n".join(lines) + "\n"


def _entries(rows: Sequence[Mapping[str, Any]], labels: int) -> Iterator[str]:
    targets = [f"{track.target:g}" for track in TRACKS if track.labels == labels]
    tests = " | ".join(f"p, {target} %" for target in targets)
    yield (
        "| method | network | steps | GPU | seeds | seconds, mean (longest) | accuracy, % "
        f"| mirrored, % | {tests} | a record? | logs |"
    )
    yield "|:---|:---|---:|:---|---:|---:|---:|---:|" + "---:|" * len(targets) + ":---|:---|"
    for row in rows:
        half = "" if row["± (95 %)"] is None else f" ± {row['± (95 %)']:.2f}"
        tests = " | ".join(_p_text(row["p"][target]) for target in targets)
        logs = ", ".join(
            f"[{number}](../../{path})" for number, path in enumerate(row["logs"], start=1)
        )
        mirrored = "–" if row["mirrored, %"] is None else f"{row['mirrored, %']:.2f}"
        yield (
            f"| {row['method']} | {row['network']}, {row['optimiser']} | {row['steps']:,} "
            f"| {row['GPU']} | {_seeds(row)} | {row['seconds']:.0f} ({row['longest']:.0f}) "
            f"| {row['accuracy, %']:.2f}{half} | {mirrored} | {tests} | {_why(row)} | {logs} |"
        )


def _seeds(row: Mapping[str, Any]) -> str:
    again = row["trainings"] != row["seeds"]
    return f"{row['seeds']}" + f" ({row['trainings']} trainings)" * again


def _p_text(p: float | None) -> str:
    return "–" if p is None else f"{p:.2g}" if p >= 0.001 else "< 0.001"


def _why(row: Mapping[str, Any]) -> str:
    if row["misses"]:
        return "no: " + ", ".join(row["misses"])
    return "yes" if any(counts(row, target) for target in row["p"]) else "no: not at the target"


def main() -> None:
    """Write both files."""
    rows = entries(list(logs()))
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    FILE.with_suffix(".md").write_text(board(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
