"""Numbers from data frames and object arrays; categories as indicators."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
import numpy.typing as npt

from manyview.exceptions import warn_user
from manyview.views.container import listed

__all__ = [
    "MAX_CATEGORIES",
    "Text",
    "as_numbers",
    "chosen_columns",
    "column_matches",
    "encoded_frame",
    "encoded_in",
    "encoded_text",
    "first_non_number",
    "frame_values",
    "is_frame",
    "is_pandas",
    "matching_columns",
]

MAX_CATEGORIES = 20
"""Most values of a column of strings that is taken for a category."""

# NumPy converts these to numbers without an error
_NO_NUMBERS = (str, bytes, bytearray, np.datetime64, np.timedelta64, np.complexfloating)


def is_frame(item: Any) -> bool:
    """Return whether an object is a DataFrame of pandas or polars."""
    return is_pandas(item) or _is_polars(item)


def is_pandas(item: Any) -> bool:
    """Return whether an object is a DataFrame with an index, as those of pandas."""
    return hasattr(item, "iloc") and hasattr(item, "columns")


def _is_polars(item: Any) -> bool:
    kind = type(item)
    return kind.__module__.partition(".")[0] == "polars" and kind.__name__ == "DataFrame"


def as_numbers(array: npt.NDArray[np.object_]) -> npt.NDArray[np.float64] | None:
    """Return an object array as floats, with NaN for None; None if it holds anything else."""
    if any(issubclass(kind, _NO_NUMBERS) for kind in set(map(type, array.flat))):
        return None
    try:
        return array.astype(np.float64)
    except (OverflowError, TypeError, ValueError):
        return None


def first_non_number(array: npt.NDArray[np.object_]) -> tuple[tuple[int, ...], str]:
    """Return the index of the first object that is no number, and the object for a message."""
    for at in np.ndindex(array.shape):
        alone = np.empty(1, dtype=np.object_)
        alone[0] = value = array[at]
        if as_numbers(alone) is None:
            break
    if isinstance(value, int):  # too large for a float, and perhaps for a message
        return at, f"an integer of {value.bit_length()} bits"
    return at, reprlib.repr(value)


def frame_values(name: str, frame: Any) -> Any:
    """Return the numbers of a DataFrame, as a sparse array if all of its columns are sparse."""
    if _is_polars(frame):
        kinds = frame.schema.items()
        _check_columns(name, [(key, str(kind)) for key, kind in kinds if not _is_number(kind)])
        return _plain(frame.to_numpy())
    dtypes = list(frame.dtypes)
    # by position: columns may share a name
    objects = {
        d: frame.iloc[:, d].to_numpy() for d, dtype in enumerate(dtypes) if dtype == np.object_
    }
    numbers = {d: as_numbers(column) for d, column in objects.items()}
    bad = [d for d, dtype in enumerate(dtypes) if numbers.get(d) is None and not _is_number(dtype)]
    _check_columns(name, [(frame.columns[d], _held(dtypes[d], objects.get(d))) for d in bad])
    if numbers:
        values = np.empty(frame.shape, dtype=np.float64)
        others = [d for d in range(len(dtypes)) if d not in numbers]
        values[:, others] = frame.iloc[:, others].to_numpy(dtype=np.float64, na_value=np.nan)
        for d, column in numbers.items():
            values[:, d] = column
        return values
    if dtypes and all(getattr(dtype, "fill_value", None) == 0 for dtype in dtypes):
        return frame.sparse.to_coo()
    if any(hasattr(dtype, "na_value") for dtype in dtypes):
        return frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return _plain(frame.to_numpy())


def _plain(values: Any) -> Any:
    return values.astype(np.float64) if values.dtype.kind == "O" else values


def _is_number(dtype: Any) -> bool:
    """Return whether a dtype of pandas or polars is one of real numbers."""
    if hasattr(dtype, "is_float"):
        return bool(dtype.is_float() or dtype.is_integer() or str(dtype) == "Boolean")
    # sparse dtypes hold numbers of their subtype; interval dtypes have a subtype but no numbers
    held = dtype.subtype if hasattr(dtype, "fill_value") else dtype
    return getattr(held, "kind", "O") in tuple("fiub")


def _held(dtype: Any, objects: npt.NDArray[np.object_] | None) -> str:
    """Return what a non-numeric column holds: its dtype, and the first object if it has objects."""
    if objects is None:
        return str(dtype)
    (row,), shown = first_non_number(objects)
    return f"{dtype}: {shown} at row {row}"


def _check_columns(name: str, bad: list[tuple[Any, str]], most: int = 5) -> None:
    """Raise if there are columns without numbers."""
    if bad:
        shown = ", ".join(f"{str(column)!r} ({kind})" for column, kind in bad[:most])
        raise ValueError(
            f"view {name!r} has {len(bad)} non-numeric column(s): {shown}"
            f"{', ...' if len(bad) > most else ''}; expected numbers only: drop or encode them"
        )


# Columns of one table


def chosen_columns(
    names: Sequence[str], views: Mapping[str, str | Sequence[str]], source: str = "the table"
) -> dict[str, list[str]]:
    """Return the columns of each view, in the order of the table.

    Columns are named, or matched by patterns in which ``*`` stands for any characters and ``?``
    for one. A column that several views match belongs to the one that names it, else to the first.

    Examples
    --------
    >>> chosen_columns(["age", "ENSG1", "ENSG2", "x"], {"genes": "ENSG*", "clinic": ["age"]})
    {'genes': ['ENSG1', 'ENSG2'], 'clinic': ['age']}
    """
    wanted = [
        (view, column)
        for view, columns in views.items()
        for column in ([columns] if isinstance(columns, str) else columns)
    ]
    owner: dict[str, str] = {}
    known = set(names)
    for view, column in wanted:
        if column in known and owner.setdefault(column, view) != view:
            raise ValueError(
                f"column {column!r} is named for the views {owner[column]!r} and {view!r}; "
                "expected one of them"
            )
    for view, pattern in wanted:
        if pattern not in known:
            for name in matching_columns(names, pattern, f"view {view!r}", source):
                owner.setdefault(name, view)
    found = {view: [name for name in names if owner.get(name) == view] for view in views}
    for view, columns in found.items():
        if not columns:
            raise ValueError(f"view {view!r} has no columns that are not in another view")
    return found


def matching_columns(names: Sequence[str], pattern: str, what: str, source: str) -> list[str]:
    """Return the columns of a name or pattern; raise if there are none. `what` wants them."""
    found = (
        [pattern] if pattern in names else [name for name in names if column_matches(name, pattern)]
    )
    if not found:
        near = get_close_matches(pattern, names, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(
            f"{what}: {source} has no column {pattern!r}; {hint}expected some of {listed(names, 8)}"
        )
    return found


def column_matches(name: str, pattern: str) -> bool:
    """Return whether a column has a name, or matches a pattern with ``*`` and ``?``.

    Examples
    --------
    >>> column_matches("ENSG01", "ENSG*"), column_matches("a[1]", "a[1]")
    (True, True)
    """
    regex = "".join({"*": ".*", "?": "."}.get(mark, re.escape(mark)) for mark in pattern)
    return re.fullmatch(regex, name, re.DOTALL) is not None


# Categories


@dataclass(frozen=True, eq=False)
class Text:
    """A column of strings: ``levels[codes[n]]`` is that of row n, which a code of -1 lacks."""

    codes: npt.NDArray[np.integer[Any]]
    levels: list[str]

    @classmethod
    def of(cls, codes: Any, levels: Sequence[str], missing: Collection[str] = ()) -> Text:
        """Return a column whose levels may repeat or be missing.

        Examples
        --------
        >>> Text.of(np.array([0, 1, 2]), ["f", "?", "f"], missing=["?"]).codes.tolist()
        [0, -1, 0]
        """
        places: dict[str, int] = {}
        to = [-1 if level in missing else places.setdefault(level, len(places)) for level in levels]
        return cls(np.append(np.asarray(to, dtype=np.int32), np.int32(-1))[codes], list(places))

    @classmethod
    def joined(cls, parts: Iterable[Text]) -> Text:
        """Return the parts of a column as one."""
        codes, levels = [], list[str]()
        for part in parts:
            codes.append(np.where(part.codes < 0, -1, part.codes + len(levels)))
            levels += part.levels
        return cls.of(np.concatenate(codes), levels)

    def __len__(self) -> int:
        return len(self.codes)


_NO = {
    "true": "false",
    "yes": "no",
    "y": "n",
    "ja": "nein",
    "j": "n",
    "oui": "non",
    "wahr": "falsch",
}
_MONTH = "(jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-z]*"
_TIME = r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[ap]m)?( ?(z|utc|[+-]\d{2}:?\d{2}))?"
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    rf"|\d{{1,2}}[-. ]*{_MONTH}[-., ]*\d{{2,4}}|{_MONTH}[-. ]*\d{{1,2}},? +\d{{4}})"
    rf"([ t]+{_TIME})?|{_TIME}",
    re.IGNORECASE,
)


def encoded_text(
    name: str,
    text: Text,
    *,
    known: Sequence[str] | None = None,
    always: bool = False,
    most: int = MAX_CATEGORIES,
) -> list[tuple[str, npt.NDArray[np.float64]]] | str:
    """Return a column of strings as features of 0 and 1, or why it cannot be encoded.

    Each value has a feature, ``sex=f``; yes and no share one, and so do true and false, under the
    name of the column. Rows without a value hold NaN.

    Parameters
    ----------
    name : str
        Name of the column.
    text : Text
        Its values.
    known : sequence of str, optional
        The features that a fit has; others are not made.
    always : bool, default=False
        Whether to encode any number of values.
    most : int, default=20
        Most values of a column that is encoded otherwise.

    Examples
    --------
    >>> encoded_text("sex", Text.of(np.array([0, 1, 0]), ["f", "m"]))
    [('sex=f', array([1., 0., 1.])), ('sex=m', array([0., 1., 0.]))]
    """
    levels = text.levels
    words = {level.lower() for level in levels}
    yes = next((word for word, no in _NO.items() if words and words <= {word, no}), None)
    features = _indicators(name, known or ())
    if features:
        unknown = sorted(set(levels) - set(features.values()))
        if unknown and len(features) > 1:
            warn_user(f"column {name!r} has values that the fit did not have: {listed(unknown, 5)}")
    elif yes is not None and yes in ("true", "wahr"):
        features = {name: yes}
    elif yes is not None:
        features = {f"{name}={yes}": yes}
    elif not always and all(map(_DATE.fullmatch, levels)):
        return "dates" if levels else "empty"
    elif always or (2 <= len(levels) <= most and len(levels) < len(text)):
        features = {f"{name}={level}": level for level in sorted(levels)}
    else:
        return f"text of {len(levels)} different values" if len(levels) > 1 else "constant text"
    found = []
    for feature, level in features.items():
        same = [level == own or (level == yes == own.lower()) for own in levels]
        found.append((feature, np.append(np.asarray(same, dtype=np.float64), np.nan)[text.codes]))
    return found


def encoded_in(features: Iterable[str]) -> set[str]:
    """Return the columns that a fit encoded, given the names of its features.

    Examples
    --------
    >>> sorted(encoded_in(["age", "sex=f", "sex=m"]))
    ['sex']
    """
    fitted = set(features)
    return {
        feature[: equals.start()] for feature in fitted for equals in re.finditer("=", feature)
    } - fitted


def _indicators(name: str, known: Sequence[str]) -> dict[str, str]:
    """Return the features of a fit that encode a column, with the value that each stands for."""
    return {
        feature: feature[len(name) + 1 :] for feature in known if feature.startswith(f"{name}=")
    }


def encoded_frame(
    frame: Any,
    *,
    known: Sequence[str] | None = None,
    categories: Collection[str] = (),
    most: int = MAX_CATEGORIES,
) -> Any:
    """Return a pandas DataFrame with its categories as columns of 0 and 1.

    Columns of the dtype ``category``, those of strings with few values, and those named in
    `categories` are encoded as in :func:`encoded_text`. Others stay as they are.
    """
    encoded: dict[int, list[tuple[str, Any]]] = {}
    fitted = encoded_in(known or ())
    for d, (column, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        is_category, chosen = hasattr(dtype, "categories"), str(column) in categories
        was_encoded = str(column) in fitted
        if not (is_category or chosen or was_encoded or _may_hold_strings(dtype)):
            continue
        text = _text_of(frame.iloc[:, d], only_strings=not (is_category or chosen or was_encoded))
        if text is None:
            continue
        found = encoded_text(
            str(column), text, known=known, always=is_category or chosen, most=most
        )
        if not isinstance(found, str):
            encoded[d] = found
    if not encoded:
        return frame
    parts = [
        part
        for d in range(frame.shape[1])
        for part in encoded.get(d, [(frame.columns[d], frame.iloc[:, d].array)])
    ]
    # by position: columns may share a name
    numbered = dict(enumerate(values for _, values in parts))
    return type(frame)(numbered, index=frame.index).set_axis([name for name, _ in parts], axis=1)


def _may_hold_strings(dtype: Any) -> bool:
    return dtype == np.object_ or str(dtype).startswith(("str", "string"))


def _text_of(column: Any, *, only_strings: bool) -> Text | None:
    """Return a pandas Series as Text; None if it does not hold strings, or only numbers as such."""
    if hasattr(column.dtype, "categories"):
        # all categories of the dtype, so that parts of a table have the same features
        levels = [str(level) for level in column.cat.categories]
        return Text.of(column.cat.codes.to_numpy(), levels)
    values = column.to_numpy(dtype=np.object_, na_value=None)
    places: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int64)
    for n, value in enumerate(values):
        is_missing = value is None or (isinstance(value, float) and value != value)
        if only_strings and not (is_missing or isinstance(value, str)):
            return None
        codes[n] = -1 if is_missing else places.setdefault(value, len(places))
    if only_strings and all(map(_is_numeric, places)):
        return None
    levels = [str(int(v)) if isinstance(v, float) and v.is_integer() else str(v) for v in places]
    return Text.of(codes, levels)


def _is_numeric(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
