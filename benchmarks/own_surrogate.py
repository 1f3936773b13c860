"""The example of docs/your-own-surrogate.md over six draws of its texts and labels.

Runs the page's own code blocks, up to the end of its training, once for each seed of the draw, and
keeps the share of hidden topics that each risk's model finds.

    PYTHONPATH=src python benchmarks/own_surrogate.py --out benchmarks/results/own_surrogate.json
"""

import argparse
import json
import re
from pathlib import Path
from typing import Any

from machine import machine

PAGE = Path(__file__).parent.parent / "docs" / "your-own-surrogate.md"
DRAWS = 6
SEED, CHECK = "torch.manual_seed(0)\n", 'assert found["debiased"]'


def page_code() -> str:
    """The page's Python up to the end of the section on training, without its last check."""
    text = PAGE.read_text(encoding="utf-8").split("## Checking it")[0]
    code = "\n".join(re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE))
    if code.count(SEED) != 1 or code.count(CHECK) != 1:
        raise ValueError(f"{PAGE.name} should have {SEED.strip()!r} once and end with {CHECK!r}.")
    return code.split(CHECK)[0]


def shares(seed: int) -> dict[str, float]:
    """The share of hidden topics found by each risk's model, for one draw."""
    names: dict[str, Any] = {"__name__": "page"}
    code = page_code().replace(SEED, f"torch.manual_seed({seed})\n")
    exec(compile(code, str(PAGE), "exec"), names)  # code of this repository
    found: dict[str, float] = names["found"]
    return found


def main() -> None:
    """Run every draw and write all shares, and the least and the most of each risk."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    draws = [shares(seed) for seed in range(DRAWS)]
    ranges = {
        risk: {
            "least": min(draw[risk] for draw in draws),
            "most": max(draw[risk] for draw in draws),
        }
        for risk in draws[0]
    }
    result = {"machine": machine(), "topics found": ranges, "draws": draws}
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
