"""Memory of a stream does not grow with its store; sparse files stand for large ones."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

# Half a gigabyte after a tenth of it, in one process: the peak must stay where it was.
CODE = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from streaming import sparse_npy
from dessl.data import StoredStream, open_rows

def peak(rows):
    path = Path(sys.argv[1]) / f"{rows}.npy"
    sparse_npy(path, rows, (3, 32, 32), "uint8")
    stream = StoredStream(open_rows(path), 1024, seed=0)
    for _ in range(rows // 1024):
        stream.draw()
    stream.close()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

print(peak(16_384), peak(163_840))
"""
BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory otherwise")
def test_ten_times_the_rows_take_the_same_memory(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path), str(BENCHMARKS)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    small, large = map(float, done.stdout.split())
    assert large - small < 40  # MB, where the rows are 500


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems count memory otherwise")
def test_twenty_gigabytes_take_the_memory_of_one() -> None:
    peaks = []
    for name in ("1 GB of images", "20 GB of images"):
        command = [sys.executable, str(BENCHMARKS / "streaming.py"), "--only", name]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peaks.append(json.loads(found)["MB at the peak"])
    assert abs(peaks[1] - peaks[0]) < 40
