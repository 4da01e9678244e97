"""Text tables as people have them."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest

from manyview.datasets import delimited as delimited_module
from manyview.datasets import read_views

NAN = float("nan")


@pytest.fixture
def read(tmp_path):
    """Read a table, and return its data set, features by name and warnings."""

    def read_table(content, name="people.csv", **options):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            data = read_views(path, **options)
        features = {
            str(name): array[:, d].tolist()
            for array, names in zip(data.views, data.views.feature_names, strict=True)
            for d, name in enumerate(names)
        }
        return data, features, [str(warning.message) for warning in caught]

    return read_table


GERMAN = (
    "Name;Größe;Gewicht;Umsatz\r\n"
    "Müller;1,82;80,5;1.234,50\r\nSchäfer;1,65;61;12.000\r\nWeiß;1,70;;1.234.567,8\r\n"
).encode("cp1252")
UTF16 = "id\tx\ty\r\na\t1.5\t2\r\nb\t3\t4\r\n".encode("utf-16")

MESSY = {
    "German Excel": (
        GERMAN,
        {
            "Größe": [1.82, 1.65, 1.7],
            "Gewicht": [80.5, 61, NAN],
            "Umsatz": [1234.5, 12000, 1234567.8],
        },
        "separator ';', decimal mark ',', cp1252",
    ),
    "Unicode text of Excel": (UTF16, {"x": [1.5, 3], "y": [2, 4]}, "separator tab, .*utf-16"),
    "UTF-16 without a mark": (
        UTF16[2:],
        {"x": [1.5, 3], "y": [2, 4]},
        "separator tab, .*utf-16-le",
    ),
    "a line for Excel": ("sep=;\nid;x\na;1\nb;2\n", {"x": [1, 2]}, "separator ';'"),
    "quoted separators": (
        'id,"x, in m",y\na,"1,234.5",1\nb,"2,000",2\n',
        {"x, in m": [1234.5, 2000], "y": [1, 2]},
        "decimal mark '.'",
    ),
    "lines inside quotes": ('id,"x\nin m",y\n"a\nb",1,2\nc,3,4\n', {"x\nin m": [1, 3]}, "','"),
    "trailing separators": ("id;x;;\na;1;;\nb;2;;\n", {"x": [1, 2]}, "';'"),
    "trailing separators in rows only": ("id,x\na,1,\nb,2,\n", {"x": [1, 2]}, "','"),
    "short rows": ("id,x,y\na,1\nb,2,3\n", {"x": [1, 2], "y": [NAN, 3]}, "1 of 4 cells"),
    "spellings of missing": (
        "id,x,y\na,NA,1\nb,n/a,2\nc,-,3\nd,?,4\ne,,5\nf,7, \n",
        {"x": [NAN] * 5 + [7], "y": [1, 2, 3, 4, 5, NAN]},
        r"6 of 12 cells are empty \(50.0%\)",
    ),
    "booleans": (
        "id,a,b,c\n1,TRUE,yes,Ja\n2,FALSE,no,nein\n3,TRUE,,ja\n",
        {"a": [1, 0, 1], "b=yes": [1, 0, NAN], "c=ja": [1, 0, 1]},
        "3 booleans",
    ),
    "percentages": ("id,x,y\na,12%,1\nb,7.5 %,2\nc,,3\n", {"x": [12, 7.5, NAN]}, "2 numbers"),
    "blanks": ("id , x\n a , 1 \n b , 2\n", {"x": [1, 2]}, "1 number"),
    "groups by blanks": ("id;x;y\na;1 234,5;1\nb;12 000;2\n", {"x": [1234.5, 12000]}, "','"),
    "minus signs of typesetters": ("id,x\na,\u22121.5\nb,2\n", {"x": [-1.5, 2]}, "1 number"),
    "no separator but one column": ("x\n1\n2\n", {"x": [1, 2]}, "1 number"),
    "blank lines": ("\n\nid,x\n\na,1\n\nb,2\n\n", {"x": [1, 2]}, "1 number"),
}


@pytest.mark.parametrize("kind", MESSY)
def test_messy_files_are_read_and_reported(read, kind):
    content, expected, note = MESSY[kind]
    data, features, _ = read(content)
    for name, values in expected.items():
        np.testing.assert_array_equal(features[name], values)
    assert pd.Series("; ".join(data.notes)).str.contains(note).all()


def test_codes_stay_text_and_dates_are_dropped(read):
    data, features, caught = read(
        "patient_id,zip,visit,seen,x\n00123,01099,03.02.2020,2020-01-31 12:30,1\n"
        "00124,01099,14.02.2020,2020-02-01 08:00,2\n00125,80331,,2020-03-01 09:15,3\n"
    )
    assert data.sample_ids.tolist() == ["00123", "00124", "00125"]
    assert features == {"zip=01099": [1, 1, 0], "zip=80331": [0, 0, 1], "x": [1, 2, 3]}
    assert caught == ["people.csv: columns dropped from view 'people': 'visit', 'seen' (dates)"]


def test_categories_are_encoded_and_other_text_is_dropped(read):
    text = "id,sex,note,x\na,f,one,1\nb,m,two,2\nc,f,three,3\nd,?,four,4\n"
    _, features, (caught,) = read(text)
    assert features == {
        "sex=f": pytest.approx([1, 0, 1, NAN], nan_ok=True),
        "sex=m": pytest.approx([0, 1, 0, NAN], nan_ok=True),
        "x": [1, 2, 3, 4],
    }
    assert "'note' (text of 4 different values)" in caught
    _, features, caught = read(text, categories="no*", max_categories=1, drop=["x"])
    assert list(features) == ["note=four", "note=one", "note=three", "note=two"]
    assert "'sex' (text of 2" in caught[0]


def test_features_of_a_fit_are_made_of_other_samples(read):
    like = {"clinic": np.array(["sex=f", "sex=m", "smoker=yes", "age"])}
    data, features, caught = read("id,age,sex,smoker,new\na,3,x,no,1\n", like=like)
    assert data.views.names == ("clinic",)
    assert features == {"age": [3], "sex=f": [0], "sex=m": [0], "smoker=yes": [0]}
    assert "column 'sex' has values that the fit did not have: 'x'" in caught


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("id;x\na;1,234\nb;5,678\n", {}, [1.234, 5.678]),
        ("id;x\na;1,234\nb;5,678\n", {"decimal": "."}, [1234, 5678]),
        ("id\tx\na\t1,234\nb\t5,678\n", {}, [1234, 5678]),
        ("id\tx\na\t1,234\nb\t5,678\n", {"decimal": ","}, [1.234, 5.678]),
        ("id;x\na;1.234\nb;5.678\n", {}, [1.234, 5.678]),
        ("id;x\na;1.234\nb;0,5\n", {}, [1234, 0.5]),
    ],
)
def test_an_ambiguous_decimal_mark_is_warned_of_unless_said(read, text, options, expected):
    _, features, caught = read(text, **options)
    assert features["x"] == expected
    is_ambiguous = not options and "0,5" not in text
    assert [("decimal=" in message) for message in caught] == [True] * is_ambiguous


def test_what_is_said_is_not_detected(read):
    _, features, _ = read(
        "id|x;y\na|1;2\n".encode("utf-16-be"), sep="|", encoding="utf-16-be", categories=["x;y"]
    )
    assert features == {"x;y=1;2": [1]}
    assert read("id\tx\na\t1\nb\t2\n", sep="tab")[1] == {"x": [1, 2]}


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (
            "id,x\na,1\nb,2\nc,red\n",
            {},
            r"column 'x' holds 'red' in line 4; expected numbers.*--dr",
        ),
        ('id,x\n"a\nb",1\n\nb,2\nc,red\n', {}, "holds 'red' in line 6"),
        ("sep=;\nid;x\na;1\nb;2\nc;1.2.3\n", {}, "holds '1.2.3' in line 5"),
        ("id,x\na,1\nb,2,3\n", {}, "line 3 has 3 fields and the header names 2"),
        ("id,x,x\na,1,2\n", {}, r"more than one column 'x' \(columns 2, 3\)"),
        ("id,x\na,1\n", {"sep": "::"}, "sep='::'; expected one character"),
        ("id,x\na,1\n", {"decimal": "'"}, "decimal=.*; expected '.' or ','"),
        ("id,x\na,1\n", {"encoding": "utf-9"}, "encoding='utf-9' is unknown"),
        (b"id,x\ncaf\xe9,1\n", {"encoding": "utf-8"}, "not utf-8-sig .*--encoding"),
        (b"id\0\0\0x\1", {}, "bytes of zero"),
        (b"", {}, "empty"),
        ("id,x\na,\nb,1\n", {}, r"1 samples have no value in any view \(ids 'a'\)"),
        ("x,y\n,\n1,2\n", {}, r"1 samples have no value in any view \(rows '1'\)"),
        ("id,x\na,5%\nb,5\nc,6\n", {}, "column 'x' holds '5%' in line 2"),
    ],
)
def test_what_is_rejected_names_the_place(read, content, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        read(content, **options)
    assert "people.csv" in str(caught.value)


def test_columns_change_their_kind_far_down(read, monkeypatch):
    monkeypatch.setattr(delimited_module, "_HEAD", 200)
    monkeypatch.setattr(delimited_module, "_CELLS", 1)
    monkeypatch.setattr(delimited_module, "_FEWEST_ROWS", 50)
    rows = [f"p{n},{n % 3},{n},{n}" for n in range(200)]
    rows += ['q,none,1e3,"1,200"', "r,none,,5"]
    _, features, _ = read("id,kind,x,y\n" + "\n".join(rows), categories=["kind"])
    kinds = [name for name in features if name.startswith("kind=")]
    assert kinds == ["kind=0", "kind=1", "kind=2", "kind=none"]
    assert features["kind=none"] == [0] * 200 + [1, 1]
    assert features["x"][-2] == 1000.0
    assert features["y"][-2:] == [1200, 5]
    broken = [*rows[:100], "z,1,oops,2", *rows[100:]]
    with pytest.raises(ValueError, match="column 'x' holds 'oops' in line 102"):
        read("id,kind,x,y\n" + "\n".join(broken), drop=["kind"])
    with pytest.raises(ValueError, match="line 102 has 5 fields"):
        read("id,kind,x,y\n" + "\n".join([*rows[:100], "z,1,2,3,4", *rows[100:]]))


def test_numbers_are_read_exactly(read):
    values = np.random.default_rng(0).standard_normal((50, 2)) * 10.0 ** np.arange(-25, 25)[:, None]
    text = "\n".join(f"{a!r};{b!r}" for a, b in values.tolist()).replace(".", ",")
    _, features, _ = read("a;b\n" + text)
    assert features == {"a": values[:, 0].tolist(), "b": values[:, 1].tolist()}


def test_a_large_table_needs_little_more_memory_than_its_numbers(tmp_path, monkeypatch):
    monkeypatch.setattr(delimited_module, "_CELLS", 1 << 16)
    path = tmp_path / "large.csv"
    rng = np.random.default_rng(0)
    header = ",".join(f"x{d}" for d in range(40))
    np.savetxt(
        path, rng.random((30_000, 40)), fmt="%.9f", delimiter=",", header=header, comments=""
    )
    read_views(path, drop="x0")  # imports
    tracemalloc.start()
    try:
        size = sum(array.nbytes for array in read_views(path).views)
        assert tracemalloc.get_traced_memory()[1] < 3 * size
    finally:
        tracemalloc.stop()
