"""The leaderboard of docs/speedrun.md, made from the committed logs of runs on CIFAR-10.

Reads every log under benchmarks/results and results/ of a semi-supervised run that was evaluated on
the test rows after its last step, groups them by setting, and writes
benchmarks/results/speedrun.json and speedrun.md.

    PYTHONPATH=src python benchmarks/speedrun.py
"""

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
FILE = ROOT / "benchmarks" / "results" / "speedrun.json"
LOGS = ("benchmarks/results/fixmatch_*.json", "results/fixmatch-cifar10*/runs/*.json")
METHODS = ("de_fixmatch", "fixmatch", "fixmatch_star")
LEAST_SEEDS, LEVEL = 5, 0.01


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


def logs() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every committed log of a semi-supervised run on CIFAR-10 evaluated on the test rows."""
    for pattern in LOGS:
        for file in sorted(ROOT.glob(pattern)):
            log = json.loads(file.read_text(encoding="utf-8"))
            judged = "settings" in log and "held-out" not in log.get("judged_on", "")
            if judged and log["data"] == "cifar10" and log["method"] in METHODS:
                yield file, log


def entries(found: Sequence[tuple[Path, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The runs grouped by setting, the most accurate first, for each number of labels."""
    together: dict[str, list[tuple[Path, Mapping[str, Any]]]] = {}
    for file, log in found:
        settings = log["settings"]
        plan = {key: value for key, value in settings["plan"].items() if key != "seed"}
        alike = (log["labels"], log["method"], settings["model"], settings["surrogate"], plan)
        key = json.dumps([*alike, log["made_with"]["device"]], sort_keys=True)
        together.setdefault(key, []).append((file, log))
    rows = [entry(group) for group in together.values()]
    return sorted(rows, key=lambda row: (-row["labels"], -row["accuracy, %"]))


def entry(group: Sequence[tuple[Path, Mapping[str, Any]]]) -> dict[str, Any]:
    """One row of the board."""
    some = [log for _, log in group]
    first = some[0]
    plan, model = first["settings"]["plan"], first["settings"]["model"]
    accuracies = by_seed(some)
    seconds = [log.get("seconds_from_command", log["training"]["seconds"]) for log in some]
    mirrored = [100 * log["mirrored"]["accuracy"] for log in some if "mirrored" in log]
    of_training = any("seconds_from_command" not in log for log in some)
    return {
        "labels": first["labels"],
        "method": first["title"],
        "network": f"{model['name']}{_network(model)}",
        "steps": plan["steps"],
        "optimiser": f"{plan['optimiser']}, rate {plan['learning_rate']:g}, "
        f"decay {plan['weight_decay']:g}",
        "GPU": first["made_with"]["device"],
        "seeds": len(accuracies),
        "trainings": len(some),
        "seconds": round(statistics.mean(seconds), 1),
        "longest": round(max(seconds), 1),
        "seconds are": "training" if of_training else "from the command",
        "accuracy, %": round(statistics.mean(accuracies), 2),
        "± (95 %)": _half_width(accuracies),
        "mirrored, %": round(statistics.mean(mirrored), 2) if len(mirrored) == len(some) else None,
        "p": {
            f"{track.target:g}": p_value(accuracies, track.target)
            for track in TRACKS
            if track.labels == first["labels"]
        },
        "logs": [str(file.relative_to(ROOT)) for file, _ in group],
    }


def by_seed(group: Sequence[Mapping[str, Any]]) -> list[float]:
    """Accuracy in percent, without mirroring; for a seed trained twice, the mean of both."""
    seeds: dict[int, list[float]] = {}
    for log in group:
        accuracy = log.get("as_it_is", log["metrics"])["accuracy"]
        seeds.setdefault(log["seed"], []).append(100 * accuracy)
    return [statistics.mean(values) for values in seeds.values()]


def _network(model: Mapping[str, Any]) -> str:
    layers = ", 11 layers" if "residuals" in model else ""
    return layers + (f", width {model['width']}" if "width" in model else "")


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
    """Whether an entry reaches a target by the rules: five seeds, p < 0.01, full time."""
    p = row["p"][target]
    timed = row["seconds are"] == "from the command"
    return bool(row["seeds"] >= LEAST_SEEDS and timed and p is not None and p < LEVEL)


def board(rows: Sequence[Mapping[str, Any]]) -> str:
    """The records, then every entry, as Markdown."""
    lines = [
        "# Speed run on CIFAR-10: the leaderboard",
        "",
        "Made from the committed logs by `python benchmarks/speedrun.py`; the rules are in "
        "[docs/speedrun.md](../../docs/speedrun.md). p is from a one-sided t-test that the mean "
        "over seeds reaches the target.",
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
            f"| {row['GPU']} | {row['seeds']} | {row['seconds']:.0f} ({row['longest']:.0f}) "
            f"| {row['accuracy, %']:.2f}{half} | {mirrored} | {tests} | {_why(row)} | {logs} |"
        )


def _p_text(p: float | None) -> str:
    return "–" if p is None else f"{p:.2g}" if p >= 0.001 else "< 0.001"


def _why(row: Mapping[str, Any]) -> str:
    reasons = []
    if row["seeds"] < LEAST_SEEDS:
        reasons.append(f"{row['seeds']} of {LEAST_SEEDS} seeds")
    if row["seconds are"] == "training":
        reasons.append("timed from the start of training")
    if not reasons and not any(counts(row, target) for target in row["p"]):
        reasons.append("not at the target")
    return "no: " + ", ".join(reasons) if reasons else "yes"


def main() -> None:
    """Write both files."""
    rows = entries(list(logs()))
    FILE.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    FILE.with_suffix(".md").write_text(board(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
