"""Packages that only some formats need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["extra"]


def extra(module: str, purpose: str) -> Any:
    """Import a module of the extra ``io``, or say how to install it.

    Parameters
    ----------
    module : str
        The module.
    purpose : str
        What needs it, for the message.

    Returns
    -------
    module
        The module.

    Examples
    --------
    >>> extra("no_such_package", "reading .xyz files")
    Traceback (most recent call last):
    ...
    ImportError: reading .xyz files needs no_such_package: pip install 'manyview[io]'
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs {package}: pip install 'manyview[io]'", name=package
        ) from error
