"""Figure of docs/how_many.md: agreement of halves on handwritten digits.

Run from the root of the project: ``.venv/bin/python docs/pictures/how_many.py``.
"""

from pathlib import Path

from manyview import choose_n_clusters
from manyview.datasets import load_digits_views


def main() -> None:
    """Compare, draw and save."""
    views = load_digits_views(n_samples=600).views
    choice = choose_n_clusters(views, range(2, 17), random_state=0)
    ax = choice.plot()
    ax.figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
