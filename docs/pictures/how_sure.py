"""Figure of docs/how_sure.md: the part of right samples against their confidence.

Run from the root of the project, with the output of the benchmark that the page names:
``.venv/bin/python -m benchmarks.reliability SETS | .venv/bin/python docs/pictures/how_sure.py``.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

LINES = {
    "confidence_": ("training samples (confidence_)", "#0072b2", "o"),
    "predict_proba": ("new samples (predict_proba)", "#e69f00", "s"),
}


def main() -> None:
    """Read, draw and save."""
    printed = sys.stdin.read()
    figure, ax = plt.subplots(figsize=(4.8, 4.8), layout="constrained")
    ax.plot([0, 1], [0, 1], color="#666666", linestyle=":", label="as many as the confidence says")
    for title, (label, colour, marker) in LINES.items():
        table = printed.split(f"\n{title}\n")[1].split("\nmean difference")[0]
        rows = [line.split("|")[3:5] for line in table.splitlines() if " to " in line]
        confidence, right = ([float(cell) for cell in column] for column in zip(*rows, strict=True))
        ax.plot(confidence, right, color=colour, marker=marker, label=label)
    ax.set(xlabel="mean confidence", ylabel="part in the cluster of their class", aspect="equal")
    ax.set(xlim=(0, 1.02), ylim=(0, 1.02))
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, loc="lower right")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
