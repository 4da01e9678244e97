"""Benchmarks of MMC on a GPU: hot loop, whole fits, agreement with the CPU, and TF32.

    python -m benchmarks.gpu                      # a CUDA device of 80 GB or more, some minutes
    python -m benchmarks.gpu --small              # small sizes, on the CPU if there is no GPU

Only torch and the dependencies of manyview are needed. Times are those of CUDA events after a
warm-up; data are generated on the device.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from sklearn.metrics import adjusted_rand_score
from torch.nn.functional import linear

import manyview
from benchmarks.measure import Measurement, add_parts, data_dir
from manyview import MMC, as_views
from manyview.engine import arrays
from manyview.engine.torch import TorchEngine
from manyview.graph import spectral
from manyview.mmc import estimator, initial, solver
from manyview.mmc.objective import normal_kernel

RANK = 32
CLUSTERS = 10
LANDMARKS_FROM = 30_000  # samples of a warm-up: enough for landmarks and for k-means by a sample


# functions that are timed in a fit; those of NESTED are called by others of them
NESTED = ("compare_sample", "clear_embedding")
WATCHED: dict[Any, tuple[str, ...]] = {
    estimator: ("resolve_normalization", "engine_for", "default_gamma"),
    initial: ("judge_labels", "initial_factors"),
    solver: ("carry_on", "refit"),
    spectral: NESTED,
}


class Bench:
    """The device and the size of the data."""

    def __init__(self, *, small: bool, data: Path | None) -> None:
        self.small, self.data = small, data
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.on_device = self.device.type == "cuda"

    def size(self, large: int, small: int) -> int:
        return small if self.small else large

    def bound(self, value: float) -> float | None:
        """Return the bound, which holds for large sizes on a GPU only."""
        return None if self.small or not self.on_device else value

    def seconds(self, function: Callable[[], object]) -> float:
        """Return the seconds of one call, with its pending work on the device."""
        if not self.on_device:
            begin = time.perf_counter()
            function()
            return time.perf_counter() - begin
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        before.record()
        function()
        after.record()
        torch.cuda.synchronize()
        return float(before.elapsed_time(after)) / 1e3

    def typical(self, function: Callable[[], object], repeats: int = 15) -> float:
        for _ in range(3):
            function()
        return median(self.seconds(function) for _ in range(repeats))

    def clustered(
        self, n: int, widths: tuple[int, ...], *, length: float, seed: int = 0
    ) -> tuple[list[Any], Any]:
        """Return views and clusters; half of the features separate the clusters, all have noise.

        `length` is the norm of the cluster means; the noise has standard deviation 1.
        """
        source = torch.Generator(self.device).manual_seed(seed)
        options: dict[str, Any] = {"generator": source, "device": self.device}
        truth = torch.randint(CLUSTERS, (n,), **options)
        views = []
        for width in widths:
            centres = torch.randn(CLUSTERS, width, **options)
            centres[:, width // 2 :] = 0.0
            centres *= length / centres.norm(dim=1, keepdim=True)
            x = torch.empty(n, width, device=self.device)
            for begin in range(0, n, 1 << 18):
                rows = slice(begin, begin + (1 << 18))
                x[rows].normal_(generator=source)
                x[rows] += centres[truth[rows]]
            views.append(x)
        return views, truth


@contextmanager
def precision(name: str) -> Iterator[None]:
    """Let float32 products use TF32 ("high") or not ("highest")."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def hot_loop(bench: Bench) -> Iterator[Measurement]:
    """Compare ``pull(B * ((B * project(W)) @ C))`` with the products that it needs at least."""
    n, d = bench.size(1_000_000, 20_000), bench.size(1024, 128)
    shape = f"{n:,} x {d:,}, R = {RANK}"
    x = torch.randn(n, d, device=bench.device)
    bandwidth = _bandwidth(bench, x)
    two_passes = 2 * x.nbytes / bandwidth
    yield Measurement("GB/s of a copy", bandwidth / 1e9, None, detail=f"{x.nbytes / 1e9:.1f} GB")
    engine = TorchEngine(as_views([x]), normalize="rows")
    engine.update(
        lambda block: (
            {"others": torch.randn(block.views[0].x.shape[0], RANK, device=bench.device)},
            (),
        )
    )
    scaling = engine.scalings[0]
    factor = torch.randn(d + 1, RANK, device=bench.device)
    features, rows = factor[:-1], torch.randn(n, RANK, device=bench.device)
    gram = torch.eye(RANK, device=bench.device)

    def hot() -> object:
        (pulled,) = engine.sum(normal_kernel, 0, scaling.fold(factor), gram)
        return scaling.unfold(pulled)

    for name, word in (("highest", "float32"), ("high", "TF32")):
        with precision(name):
            projects = {
                "x @ W": bench.typical(lambda: x @ features),
                "W by columns": bench.typical(lambda: linear(x, features.T.contiguous())),
            }
            pulls = {"x.T @ M": bench.typical(lambda: x.T @ rows)}
            for part in (1024, 4096, 16_384):
                by_parts = partial(arrays.product_over_rows, x, rows, summed_rows=part)
                pulls[f"by {part}"] = bench.typical(by_parts)
            seconds = bench.typical(hot)
        bare = min(projects.values()) + min(pulls.values())
        parts = ", ".join(f"{key} {1e3 * value:.2f}" for key, value in (projects | pulls).items())
        yield Measurement(
            f"hot loop / two bare products, {word}, {shape}",
            seconds / bare,
            bench.bound(1.3) if word == "float32" else None,
            detail=f"{1e3 * seconds:.2f} ms; {parts} ms",
        )
        yield Measurement(
            f"hot loop / two passes over memory, {word}, {shape}",
            seconds / two_passes,
            bench.bound(1.6) if word == "TF32" else None,
            detail=f"{1e3 * seconds:.2f} ms against {1e3 * two_passes:.2f} ms",
        )


def _bandwidth(bench: Bench, x: Any) -> float:
    copy = torch.empty_like(x)
    return float(2 * x.nbytes / bench.typical(lambda: copy.copy_(x)))


@contextmanager
def watched(bench: Bench) -> Iterator[dict[str, float]]:
    """Time the functions of WATCHED."""
    seconds: dict[str, float] = {}
    whole = {
        (module, name): getattr(module, name) for module, names in WATCHED.items() for name in names
    }

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            results: list[Any] = []
            taken = bench.seconds(lambda: results.append(function(*args, **options)))
            seconds[name] = seconds.get(name, 0.0) + taken
            return results[0]

        return call

    for (module, name), function in whole.items():
        setattr(module, name, timed(name, function))
    try:
        yield seconds
    finally:
        for (module, name), function in whole.items():
            setattr(module, name, function)


def fitted(views: list[Any], **options: Any) -> MMC:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MMC(CLUSTERS, **({"random_state": 0} | options)).fit(views)


def agreement(one: Any, other: Any) -> float:
    """Return the adjusted Rand index, on at most about a million samples."""
    step = max(1, len(one) // 1_000_000)
    pair = (arrays.to_numpy(labels)[::step] for labels in (one, other))
    return float(adjusted_rand_score(*pair))


def whole_fits(bench: Bench) -> Iterator[Measurement]:
    """Measure fits with defaults, including initialisation and labels."""
    for n, widths, length, most in (
        (bench.size(1_000_000, 20_000), (bench.size(1024, 128),) * 2, 4.0, 3.0),
        (bench.size(10_000_000, 40_000), (bench.size(100, 50),) * 2, 3.0, 10.0),
    ):
        try:
            yield from _whole_fit(bench, n, widths, length, most)
        except Exception:
            traceback.print_exc()
            yield Measurement(f"seconds of a fit, {n:,} x {widths}", float("inf"), most)


def _whole_fit(
    bench: Bench, n: int, widths: tuple[int, ...], length: float, most: float
) -> Iterator[Measurement]:
    shape = f"{n:,} x ({' + '.join(map(str, widths))}), K = {CLUSTERS}"
    views, truth = bench.clustered(n, widths, length=length)
    first = bench.seconds(lambda: fitted([x[:LANDMARKS_FROM] for x in views]))
    if bench.on_device:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
    found: list[MMC] = []
    seconds = bench.seconds(lambda: found.append(fitted(views)))
    model = found[0]
    detail = f"{model.n_iter_} iterations, ARI {agreement(model.labels_, truth):.3f}"
    if bench.on_device:
        peak = (torch.cuda.max_memory_allocated() - held) / 1e9
        detail += f"; {held / 1e9:.1f} GB of data, {peak:.1f} GB beyond; warm-up {first:.1f} s"
    yield Measurement(f"seconds of a fit, {shape}", seconds, bench.bound(most), detail=detail)
    with watched(bench) as parts:
        again = bench.seconds(lambda: fitted(views))
    listed = ", ".join(f"{name} {value:.3f}" for name, value in parts.items())
    rest = again - sum(value for name, value in parts.items() if name not in NESTED)
    yield Measurement(
        "the same once more, in parts", again, None, detail=f"{listed}, checks and rest {rest:.3f}"
    )
    predict = bench.typical(lambda: model.predict(views), repeats=3)
    yield Measurement("seconds of predict, the same samples", predict, None)


def same_labels(bench: Bench) -> Iterator[Measurement]:
    """Compare the labels of the CPU with those of the device."""
    n = bench.size(50_000, 6_000)
    views, truth = bench.clustered(n, (100, 50), length=8.0)
    yield _compared(bench, f"well-separated {n:,} x (100 + 50)", views, truth, {})
    folder = data_dir()
    path = bench.data or (folder / "mnist70k.npz" if folder is not None else None)
    if path is None or not path.exists():
        print("mnist70k.npz is neither in MANYVIEW_DATA nor given by --data; it is not measured")
        return
    from manyview.datasets import read_views

    raw, y = read_views(path)
    assert y is not None, f"{path} has no classes"
    here = [np.asarray(x) for x in raw]
    if bench.small:
        here, y = [x[:6000] for x in here], y[:6000]
    there = [torch.from_numpy(x).to(bench.device) for x in here]
    yield _compared(bench, path.stem, there, y, {})


def _compared(
    bench: Bench, name: str, views: list[Any], truth: Any, options: dict[str, Any]
) -> Measurement:
    here = [x.cpu().numpy() for x in views]
    on_device: list[MMC] = []
    there = bench.seconds(lambda: on_device.append(fitted(views, **options)))
    begin = time.perf_counter()
    on_cpu = fitted(here, **options)
    seconds = time.perf_counter() - begin
    return Measurement(
        f"ARI of labels of {bench.device.type} tensors and of NumPy, {name}",
        agreement(on_device[0].labels_, on_cpu.labels_),
        0.99,
        at_least=True,
        detail=(
            f"{there:.2f} s and {seconds:.2f} s; ARI with the truth "
            f"{agreement(on_device[0].labels_, truth):.4f} and "
            f"{agreement(on_cpu.labels_, truth):.4f}"
        ),
    )


def tf32(bench: Bench) -> Iterator[Measurement]:
    """Compare time and labels with TF32 and with float32."""
    if not bench.on_device:
        print("TF32 needs a CUDA device; it is not measured")
        return
    n, widths = bench.size(500_000, 20_000), (bench.size(1024, 128),) * 2
    # well separated clusters, and overlapping ones
    for length in (4.0, 2.5):
        views, truth = bench.clustered(n, widths, length=length)
        models, seconds = {}, {}
        for name in ("highest", "high"):
            with precision(name):
                fitted([x[:LANDMARKS_FROM] for x in views])
                kept: list[MMC] = []
                seconds[name] = bench.seconds(partial(_keep, kept, views))
                models[name] = kept[0]
        exact, coarse = (models[name] for name in ("highest", "high"))
        objectives = [float(model.objective_[-1]) for model in (exact, coarse)]
        yield Measurement(
            f"ARI of labels with TF32 and with float32, {n:,} x {widths}, means of {length:g}",
            agreement(exact.labels_, coarse.labels_),
            None,
            detail=(
                f"objective {objectives[1]:.6g} against {objectives[0]:.6g}, "
                f"ARI with the truth {agreement(coarse.labels_, truth):.4f} against "
                f"{agreement(exact.labels_, truth):.4f}, "
                f"{seconds['high']:.2f} s against {seconds['highest']:.2f} s"
            ),
        )


def _keep(kept: list[MMC], views: list[Any]) -> None:
    kept.append(fitted(views))


PARTS = {"hot_loop": hot_loop, "fits": whole_fits, "labels": same_labels, "tf32": tf32}


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_parts(parser, PARTS)
    parser.add_argument("--small", action="store_true", help="small sizes, no bounds")
    parser.add_argument("--json", type=Path, help="write the measurements to this file")
    parser.add_argument("--data", type=Path, help="mnist70k.npz, if not in MANYVIEW_DATA")
    options = parser.parse_args()
    bench = Bench(small=options.small, data=options.data)
    if not bench.on_device and not bench.small:
        parser.error("torch sees no CUDA device; --small runs small sizes on the CPU")
    machine = _machine(bench)
    print(", ".join(f"{key} {value}" for key, value in machine.items()))
    measurements, failed = [], []
    for part in options.parts or PARTS:
        try:
            for measurement in PARTS[part](bench):
                measurements.append(measurement)
                print(_line(measurement), flush=True)
        except Exception:
            failed.append(part)
            print(f"{part} ended with an error:")
            traceback.print_exc(limit=-4, file=sys.stdout)
        if bench.on_device:
            torch.cuda.empty_cache()
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        report = {"machine": machine, "measurements": [m.row() for m in measurements]}
        options.json.write_text(json.dumps(report, indent=2) + "\n")
    missed = [m.name for m in measurements if m.kept is False]
    print(f"{len(measurements)} measurements, {len(missed)} beyond their bound, failed: {failed}")
    return 1 if missed or failed else 0


def _line(m: Measurement) -> str:
    bound = "" if m.bound is None else f"{'>=' if m.at_least else '<='} {m.bound:g}"
    mark = {True: "kept", False: "MISSED", None: ""}[m.kept]
    return f"{m.name:<66} {m.figure:9.3f} {bound:<8} {mark:<6} {m.detail}"


def _machine(bench: Bench) -> dict[str, str]:
    name = torch.cuda.get_device_name() if bench.on_device else "CPU"
    return {
        "device": name + (" (small sizes)" if bench.small else ""),
        "torch": torch.__version__,
        "cuda": str(torch.version.cuda),
        "numpy": np.__version__,
        "manyview": manyview.__version__,
        "python": platform.python_version(),
    }


if __name__ == "__main__":
    sys.exit(main())
