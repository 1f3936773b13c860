"""A step of every surrogate in a CUDA graph: nothing waits for the host, values are as in eager."""

from typing import Any

import pytest
import torch

from dessl.surrogates import SURROGATES, Rows, Surrogate

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def generators(surrogate: Surrogate, device: torch.device) -> list[torch.Generator]:
    parts = [part for part in surrogate.modules() if isinstance(part, Surrogate)]
    return [part.generator(device) for part in parts]


@pytest.mark.parametrize("name", list(SURROGATES))
def test_a_captured_step_gives_what_eager_steps_give(
    name: str, build: Any, make_network: Any, make_rows: Any
) -> None:
    model = make_network().cuda()
    x, ids = make_rows()
    rows = Rows(x.cuda(), ids.cuda())
    eager, captured = build(name), build(name)
    for surrogate in (eager, captured):
        surrogate.prepare(model, 12, 3)
        surrogate.cuda()

    def step(surrogate: Surrogate) -> torch.Tensor:
        scores = surrogate(model, rows)
        (scores.h.mean() + scores.logits.mean()).backward()
        surrogate.after_step(model, rows, scores)
        h: torch.Tensor = scores.h.detach()
        return h

    start = {key: value.clone() for key, value in captured.named_buffers()}
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step(captured)  # warm-up, as capture asks for
    torch.cuda.current_stream().wait_stream(stream)
    for key, value in captured.named_buffers():
        value.copy_(start[key])
    graph = torch.cuda.CUDAGraph()
    for generator in generators(captured, rows.x.device):
        generator.manual_seed(0)
        graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        h = step(captured)
    for _ in range(3):
        graph.replay()
        expected = step(eager)
        torch.testing.assert_close(h, expected)
    for key, value in captured.named_buffers():
        torch.testing.assert_close(value, dict(eager.named_buffers())[key])
