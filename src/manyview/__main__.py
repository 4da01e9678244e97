"""Lets ``python -m manyview`` stand for the command ``manyview``."""

from manyview.cli import main

if __name__ == "__main__":
    main()
