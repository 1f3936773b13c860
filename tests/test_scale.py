"""The job files of docs/scale.md are whole: shells and parsers read them, names agree."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

PAGE = (Path(__file__).parents[1] / "docs" / "scale.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
def test_batch_scripts_are_shell() -> None:
    assert len(blocks("sh")) == 2
    for script in blocks("sh"):
        assert script.startswith("#!/bin/bash\n#SBATCH")
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)


def test_the_array_covers_every_cell_once() -> None:
    script = blocks("sh")[1]
    last = int(re.search(r"--array=0-(\d+)", script)[1])
    n = len(re.search(r"lambdas=\((.*)\)", script)[1].split())
    assert len({(task % n, task // n) for task in range(last + 1)}) == last + 1 == 3 * 10


def test_the_pods_find_each_other() -> None:
    service, job = yaml.safe_load_all(blocks("yaml")[0])
    name = job["metadata"]["name"]
    pod = job["spec"]["template"]["spec"]
    assert service["spec"]["selector"] == {"job-name": name}
    assert service["spec"]["clusterIP"] == "None"
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    options = dict(part[2:].split("=") for part in container["command"] if part.startswith("--"))
    assert options["rdzv-endpoint"] == f"{name}-0.{pod['subdomain']}:29500"
    assert int(options["nnodes"]) == job["spec"]["completions"] == job["spec"]["parallelism"]
    assert int(options["nproc-per-node"]) == container["resources"]["limits"]["nvidia.com/gpu"]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
