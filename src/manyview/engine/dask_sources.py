"""How tasks come by their rows: read anew at each pass, unless the data are in memory anyway.

A chunk that is loaded, or computed from what is loaded, is a recipe: a small graph that a task runs
itself before its kernel. So a pass holds a chunk a thread, however large the views are, and
chunks do not travel. What the caller has persisted is used where it is; what the caller's process
holds is handed over to the cluster once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import dask
import numpy as np
from dask.core import get_dependencies
from dask.sizeof import sizeof

from manyview.engine.dask_graph import GraphOfCall
from manyview.engine.dask_run import Ref, Runner

__all__ = ["Source", "sources_of"]

Source = list[Any]
"""Of each chunk of columns, an array or recipe, and what the recipe is made from."""

_MOST_SHARED = 4  # blocks that each make what they share; what more of them share is kept
_SMALL = 1 << 20  # bytes that a recipe may carry


@dataclass(frozen=True)
class Recipe:
    """A graph that makes a chunk, and the keys of what it is given."""

    graph: dict[Any, Any]
    key: Any
    given: tuple[Any, ...]

    def __dask_tokenize__(self) -> object:
        return str(self.key), [str(key) for key in self.graph]

    def __call__(self, values: list[Any]) -> Any:
        """Return the chunk."""
        return dask.get({**self.graph, **dict(zip(self.given, values, strict=True))}, self.key)


def sources_of(array: Any, runner: Runner) -> list[Source]:
    """Return where each chunk of rows of a Dask array comes from."""
    futures = [node for node in dict(array.__dask_graph__()).values() if _is_future(node)]
    (array,) = dask.optimize(array)
    # optimising leaves out what is known to the cluster
    graph = {**dict(array.__dask_graph__()), **{future.key: future for future in futures}}
    keys: list[list[Any]] = array.__dask_keys__()
    needs = {
        key: set() if _is_future(node) else set(get_dependencies(graph, key))
        for key, node in graph.items()
    }
    kept = {key for key in graph if _is_future(graph[key])} | _shared(needs, keys)
    recipes: dict[Any, Recipe] = {}
    for key in (key for row in keys for key in row):
        if key in kept:
            continue
        made_from = _ancestors(needs, [key], stop=kept)
        inner = {name: graph[name] for name in made_from if name not in kept}
        if _held(graph[key]) or (runner.remote and _literal_bytes(inner, needs) > _SMALL):
            kept.add(key)
        else:
            recipes[key] = Recipe(inner, key, tuple(name for name in made_from if name in kept))
    refs = _kept(graph, needs, kept, runner)
    makers = _handed_over(recipes, runner)

    def source(key: Any) -> list[Any]:
        if key in refs:
            return [refs[key], []]
        return [makers[key], [refs[name] for name in recipes[key].given]]

    return [[source(key) for key in row] for row in keys]


def _shared(needs: dict[Any, set[Any]], keys: list[list[Any]]) -> set[Any]:
    """Return what too many blocks need to make it themselves, such as a mean over all of them.

    What only leads to that is not counted among the needs of a block.
    """
    rows: dict[Any, set[int]] = {key: {n} for n, row in enumerate(keys) for key in row}
    shared = set()
    for key in reversed(list(TopologicalSorter(needs).static_order())):
        of_key = rows.get(key, set())
        if len(of_key) > _MOST_SHARED and needs[key]:
            shared.add(key)
            continue
        for name in needs[key]:
            rows.setdefault(name, set()).update(of_key)
    return shared


def _ancestors(needs: dict[Any, set[Any]], keys: Iterable[Any], stop: set[Any]) -> list[Any]:
    found: dict[Any, None] = {}
    waiting = list(keys)
    while waiting:
        key = waiting.pop()
        if key in found:
            continue
        found[key] = None
        if key not in stop:
            waiting.extend(needs[key])
    return list(found)


def _kept(
    graph: dict[Any, Any], needs: dict[Any, set[Any]], kept: set[Any], runner: Runner
) -> dict[Any, Ref]:
    """Return references to the results of some keys, made now if they are not there."""
    refs = {key: graph[key] for key in kept if _is_future(graph[key])}
    missing = [key for key in kept if key not in refs]
    if missing:
        made_from = {key: graph[key] for key in _ancestors(needs, missing, stop=set())}
        made_from.update((key, _handed(graph[key])) for key in missing if _held(graph[key]))
        _, made = runner.run(made_from, [], missing)
        refs.update(zip(missing, made, strict=True))
    return refs


def _handed_over(recipes: dict[Any, Recipe], runner: Runner) -> dict[Any, Ref]:
    """Return references to recipes: they travel once, and not with every task."""
    if not runner.remote or not recipes:
        return dict(recipes)
    graph = GraphOfCall()
    _, refs = runner.run(graph, [], graph.add("recipe", list(recipes.values())))
    return dict(zip(recipes, refs, strict=True))


def _is_future(node: Any) -> bool:
    return hasattr(node, "client") and hasattr(node, "key")


def _held(node: Any) -> bool:
    """Whether a node of a graph is data, not a task."""
    value = getattr(node, "value", node)
    return hasattr(value, "dtype") and hasattr(value, "shape")


def _handed(node: Any) -> Any:
    """Return a task that lets the one who receives an array have it aligned in memory."""
    value = getattr(node, "value", node)
    return (np.require, value, None, "A") if isinstance(value, np.ndarray) else node


def _literal_bytes(graph: dict[Any, Any], needs: dict[Any, set[Any]]) -> int:
    total = 0
    for key, node in graph.items():
        if _held(node):
            total += sizeof(getattr(node, "value", node))
        elif not needs[key]:
            total += sum(sizeof(value) for value in getattr(node, "args", node))
    return total
