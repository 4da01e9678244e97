"""Entry point of ``python -m manyview``, which runs the command ``manyview``."""

from manyview.cli import main

if __name__ == "__main__":
    main()
