"""Triton kernels for K convolutions at once, each model with its own rows and its own weights.

    out[k, n, o, i, j] = Σ_{c, a, b} x[k, n, c, i + a − p, j + b − p] · w[k, o, c, a, b]  (+ bias)

The patches of x are read in place: their matrix, 25 times as large as an image for 5 × 5 windows,
is never written. :mod:`dessl.training.convolution_launch` chooses the kernel and the tiles.

The kernels exist only if Triton is installed, which comes with a CUDA build of PyTorch.
"""

from importlib.util import find_spec

if find_spec("triton") is not None:
    import triton  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found, import-untyped, unused-ignore]

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def few_maps(  # type: ignore[no-untyped-def]
        x,
        w,
        bias,
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
        BO: tl.constexpr,
        RELU: tl.constexpr,
    ):
        """BP pixels of all maps of one model, by plain multiplications; O ≤ BO."""
        k = tl.program_id(1).to(tl.int64)
        R: tl.constexpr = C * KH * KW
        p = tl.program_id(0) * BP + tl.arange(0, BP)
        o = tl.arange(0, BO)
        n = p // (OH * OW)
        i = p % (OH * OW) // OW - PAD
        j = p % OW - PAD
        known = p < N * OH * OW
        x += k * N * (C * H * W)
        w += k * (O * R)
        corner = n * (C * H * W) + i * W + j
        total = tl.zeros((BO, BP), dtype=tl.float32)
        for a in tl.static_range(KH):
            for b in tl.static_range(KW):
                inside = known
                if PAD > 0:
                    inside = known & (i + a >= 0) & (i + a < H) & (j + b >= 0) & (j + b < W)
                for c in range(C):
                    seen = tl.load(x + corner + (c * H * W + a * W + b), mask=inside, other=0.0)
                    # Read in place: weights laid out for long reads would have to be exchanged
                    # between threads, which was slower for every layer of a LeNet.
                    entry = c * KH * KW + a * KW + b
                    weights = tl.load(w + o * R + entry, mask=o < O, other=0.0)
                    total += weights[:, None] * seen[None, :]
        total += tl.load(bias + k * O + o, mask=o < O, other=0.0)[:, None]
        if RELU:
            total = tl.maximum(total, 0.0)
        place = k * N * (O * OH * OW) + n * (O * OH * OW) + p % (OH * OW)
        kept = known[None, :] & (o < O)[:, None]
        tl.store(out + place[None, :] + o[:, None] * (OH * OW), total, mask=kept)

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

        Also returns the positions of those entries in a row of weights, (BR,). Pixels run along the
        last dimension, so that neighbours are read together.
        """
        n = p // (OH * OW)
        i = p % (OH * OW) // OW - PAD
        j = p % OW - PAD
        if C % BR == 0:  # one window position and BR channels: no arithmetic per entry
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
    def convolution(  # type: ignore[no-untyped-def]
        x,
        w,
        bias,
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
        RELU: tl.constexpr,
    ):
        """BP pixels of BO maps of one model, by products of tiles."""
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
        total += tl.load(bias + k * O + o, mask=o < O, other=0.0)[None, :]
        if RELU:
            total = tl.maximum(total, 0.0)
        place = p // (OH * OW) * (O * OH * OW) + p % (OH * OW)
        known = (p < pixels)[None, :] & (o < O)[:, None]
        tl.store(out + place[None, :] + o[:, None] * (OH * OW), tl.trans(total), mask=known)

    @triton.jit  # type: ignore[untyped-decorator, unused-ignore]
    def weight_gradient(  # type: ignore[no-untyped-def]
        x,
        g,
        partial,
        N,
        K,
        TILES: tl.constexpr,  # tiles of BP pixels in one split
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
        """The contribution of TILES · BP pixels of one model to the gradient of BO × BR weights."""
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
