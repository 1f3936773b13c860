"""Triton kernels of K convolutions at once, each model with its own rows and its own weights.

    out[k, n, o, i, j] = Σ_{c, a, b} x[k, n, c, i + a − p, j + b − p] · w[k, o, c, a, b]

Both kernels are products of small tiles with the patches of x read where they lie (implicit GEMM):
the matrix of patches, 25 times an image for 5 × 5 windows, is never written. ``tf32x3`` computes
float32 products on tensor cores in three passes, to float32's own accuracy.

They exist only where Triton does, that is beside a CUDA build of PyTorch.
"""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

PRECISION = "tf32x3"
ROWS_TILE = 128  # output pixels of one product
MOST_SPLITS = 32  # partial sums of a weight gradient
PROGRAMS = 4096  # that keep a large device busy

if find_spec("triton") is not None:
    import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _patches(  # type: ignore[no-untyped-def]
        x,
        p,
        first,
        pixels,
        C: tl.constexpr,
        H: tl.constexpr,
        W: tl.constexpr,
        OH: tl.constexpr,
        OW: tl.constexpr,
        KH: tl.constexpr,
        KW: tl.constexpr,
        PAD: tl.constexpr,
        BR: tl.constexpr,
    ):
        """Entries ``first`` to ``first + BR`` of the patches at output pixels p, (BR, BP).

        Also where those entries stand in a row of weights, (BR,). Pixels run along the last
        dimension, so that neighbours are read together.
        """
        n = p // (OH * OW)
        i = p % (OH * OW) // OW - PAD
        j = p % OW - PAD
        if C % BR == 0:  # one place in the window and BR channels: no arithmetic for each entry
            c = first % C + tl.arange(0, BR)
            a = first // C // KW
            b = first // C % KW
            inside = (p < pixels) & (i + a >= 0) & (i + a < H) & (j + b >= 0) & (j + b < W)
            place = n * (C * H * W) + (i + a) * W + j + b
            entry = c * (KH * KW) + a * KW + b
            patches = tl.load(
                x + place[None, :] + (c * (H * W))[:, None], mask=inside[None, :], other=0.0
            )
        else:
            entry = first + tl.arange(0, BR)
            c = entry // (KH * KW)
            row = i[None, :] + (entry % (KH * KW) // KW)[:, None]
            column = j[None, :] + (entry % KW)[:, None]
            inside = (p < pixels)[None, :] & (c < C)[:, None]
            if PAD > 0:
                inside = inside & (row >= 0) & (row < H) & (column >= 0) & (column < W)
            place = (n * (C * H * W))[None, :] + (c * (H * W))[:, None] + row * W + column
            patches = tl.load(x + place, mask=inside, other=0.0)
        return patches, entry

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _convolution(  # type: ignore[no-untyped-def]
        x,
        w,
        out,
        N,
        C: tl.constexpr,
        H: tl.constexpr,
        W: tl.constexpr,
        O: tl.constexpr,  # noqa: E741
        OH: tl.constexpr,
        OW: tl.constexpr,
        KH: tl.constexpr,
        KW: tl.constexpr,
        PAD: tl.constexpr,
        BP: tl.constexpr,
        BR: tl.constexpr,
        BO: tl.constexpr,
        DOT: tl.constexpr,
    ):
        k = tl.program_id(1).to(tl.int64)
        R: tl.constexpr = C * KH * KW
        pixels = N * OH * OW
        p = tl.program_id(0) * BP + tl.arange(0, BP)
        o = tl.program_id(2) * BO + tl.arange(0, BO)
        x += k * N * (C * H * W)
        w += k * (O * R)
        out += k * N * (O * OH * OW)
        total = tl.zeros((BP, BO), dtype=tl.float32)
        for first in range(0, R, BR):
            patches, entry = _patches(x, p, first, pixels, C, H, W, OH, OW, KH, KW, PAD, BR)
            known = (entry < R)[:, None] & (o < O)[None, :]
            weights = tl.load(w + o[None, :] * R + entry[:, None], mask=known, other=0.0)
            total = tl.dot(tl.trans(patches), weights, total, input_precision=DOT)
        place = p // (OH * OW) * (O * OH * OW) + p % (OH * OW)
        known = (p < pixels)[None, :] & (o < O)[:, None]
        tl.store(out + place[None, :] + o[:, None] * (OH * OW), tl.trans(total), mask=known)

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def _weight_gradient(  # type: ignore[no-untyped-def]
        x,
        g,
        partial,
        N,
        K,
        TILES: tl.constexpr,  # of BP pixels, in one split
        C: tl.constexpr,
        H: tl.constexpr,
        W: tl.constexpr,
        O: tl.constexpr,  # noqa: E741
        OH: tl.constexpr,
        OW: tl.constexpr,
        KH: tl.constexpr,
        KW: tl.constexpr,
        PAD: tl.constexpr,
        BP: tl.constexpr,
        BR: tl.constexpr,
        BO: tl.constexpr,
        DOT: tl.constexpr,
    ):
        split = tl.program_id(0)
        k = tl.program_id(1).to(tl.int64)
        R: tl.constexpr = C * KH * KW
        pixels = N * OH * OW
        first = tl.program_id(2) % tl.cdiv(R, BR) * BR
        o = tl.program_id(2) // tl.cdiv(R, BR) * BO + tl.arange(0, BO)
        x += k * N * (C * H * W)
        g += k * N * (O * OH * OW)
        total = tl.zeros((BR, BO), dtype=tl.float32)
        entry = tl.zeros((BR,), dtype=tl.int32)
        for tile in range(TILES):
            p = (split * TILES + tile) * BP + tl.arange(0, BP)
            patches, entry = _patches(x, p, first, pixels, C, H, W, OH, OW, KH, KW, PAD, BR)
            place = p // (OH * OW) * (O * OH * OW) + p % (OH * OW)
            known = (p < pixels)[None, :] & (o < O)[:, None]
            slope = tl.load(g + place[None, :] + o[:, None] * (OH * OW), mask=known, other=0.0)
            total = tl.dot(patches, tl.trans(slope), total, input_precision=DOT)
        known = (o < O)[None, :] & (entry < R)[:, None]
        partial += (split * K + k) * (O * R)
        tl.store(partial + o[None, :] * R + entry[:, None], total, mask=known)


def _shapes(x: Tensor, weight_shape: torch.Size, padding: int) -> dict[str, Any]:
    _, _, channels, height, width = x.shape
    _, out_channels, _, window_height, window_width = weight_shape
    entries = channels * window_height * window_width
    return {
        "C": channels,
        "H": height,
        "W": width,
        "O": out_channels,
        "OH": height + 2 * padding - window_height + 1,
        "OW": width + 2 * padding - window_width + 1,
        "KH": window_height,
        "KW": window_width,
        "PAD": padding,
        "BR": 16 if entries <= 16 else 32,
        "BO": min(64, max(16, 1 << (out_channels - 1).bit_length())),
        "DOT": PRECISION,
    }


def convolved(x: Tensor, weight: Tensor, padding: int) -> Tensor:
    """Return x (K, n, C, H, W) convolved with weights (K, O, C, kh, kw), model by model."""
    shapes = _shapes(x, weight.shape, padding)
    models, n = x.shape[:2]
    out = x.new_empty(models, n, shapes["O"], shapes["OH"], shapes["OW"])
    tiles = -(-n * shapes["OH"] * shapes["OW"] // ROWS_TILE)
    grid = (tiles, models, -(-shapes["O"] // shapes["BO"]))
    _convolution[grid](x.contiguous(), weight.contiguous(), out, n, BP=ROWS_TILE, **shapes)
    return out


def weight_gradient(x: Tensor, slope: Tensor, window: tuple[int, int], padding: int) -> Tensor:
    """Return the gradient (K, O, C, kh, kw) from x (K, n, C, H, W) and ∂/∂out (K, n, O, ...)."""
    models, n, channels = x.shape[:3]
    weight_shape = torch.Size((models, slope.shape[2], channels, *window))
    shapes = _shapes(x, weight_shape, padding)
    tiles = -(-n * shapes["OH"] * shapes["OW"] // ROWS_TILE)
    entries = channels * window[0] * window[1]
    columns = -(-entries // shapes["BR"]) * -(-shapes["O"] // shapes["BO"])
    splits = min(tiles, MOST_SPLITS, max(1, PROGRAMS // (models * columns)))
    in_split = -(-tiles // splits)
    partial = x.new_empty(splits, *weight_shape)
    _weight_gradient[(splits, models, columns)](
        x.contiguous(), slope.contiguous(), partial, n, models, in_split, BP=ROWS_TILE, **shapes
    )
    return partial.sum(0)
