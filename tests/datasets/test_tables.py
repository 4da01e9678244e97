import bz2
import gzip
import lzma
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyview.datasets import read_views, write_views

TEXT = "id,apple,pear\na,1,2\nb,3,4\nc,5,6.5\n"
IMAGE = "id,red\nc,30\na,10\nb,20\n"


@pytest.fixture
def folder(tmp_path):
    def write(**files):
        made = tmp_path / "set"
        made.mkdir()
        for name, content in files.items():
            stem, _, suffix = name.partition("__")
            path = made / f"{stem}.{suffix or 'csv'}"
            if isinstance(content, dict):
                pq.write_table(pa.table(content), path)
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(content, encoding="utf-8")
        return made

    return write


def parquet(text):
    head, *rows = (line.split(",") for line in text.split())
    return {
        name: [row[d] if name == "id" else float(row[d]) for row in rows]
        for d, name in enumerate(head)
    }


@pytest.mark.parametrize("suffix", ["csv", "tsv", "TSV", "parquet"])
def test_rows_are_joined_by_id_and_files_are_sorted_by_name(folder, suffix):
    text, image = TEXT, IMAGE
    if suffix == "parquet":
        text, image = parquet(TEXT), parquet(IMAGE)
    elif suffix.lower() == "tsv":
        text, image = (table.replace(",", "\t") for table in (TEXT, IMAGE))
    made = folder(**{f"text__{suffix}": text, f"image__{suffix}": image})
    data = read_views(made)
    assert data.name == "set"
    assert data.views.names == ("image", "text")
    assert data.sample_ids.tolist() == ["c", "a", "b"]
    assert data.views["image"].tolist() == [[30], [10], [20]]
    assert data.views["text"].tolist() == [[5, 6.5], [1, 2], [3, 4]]
    assert [names.tolist() for names in data.views.feature_names] == [["red"], ["apple", "pear"]]
    assert data.views.present is None
    assert data.y is None


def test_ids_missing_from_a_file_are_reported_as_a_missing_view(folder):
    made = folder(text=TEXT + "d,7,8\ne,9,9\n", image=IMAGE)
    with pytest.warns(
        UserWarning, match=r"set: image\.csv misses 2 of 5 ids \('d', 'e'\): the view is missing"
    ):
        data = read_views(made)
    assert data.sample_ids.tolist() == ["c", "a", "b", "d", "e"]
    assert data.views.present.tolist() == [[True, True]] * 3 + [[False, True]] * 2
    assert data.views["image"][3:].tolist() == [[0], [0]]


def test_only_the_common_samples_on_request(folder):
    made = folder(text=TEXT + "d,7,8\n", image=IMAGE, labels="id,label\na,x\nb,y\nc,x\n")
    data = read_views(made, samples="common")
    assert data.sample_ids.tolist() == ["c", "a", "b"]
    assert data.views.present is None
    assert data.y.tolist() == [0, 0, 1]


class TestLabels:
    def test_strings(self, folder):
        made = folder(text=TEXT, image=IMAGE, labels="label,id\ndog,a\ncat,b\ndog,c\n")
        data = read_views(made)
        assert data.class_names[data.y].tolist() == ["dog", "dog", "cat"]

    def test_numbers_are_sorted_as_numbers(self, folder):
        data = read_views(folder(text=TEXT, labels="id,y\na,10\nb,9\nc,10\n"))
        assert data.class_names.tolist() == ["9", "10"]

    def test_a_parquet_file_of_labels_beside_csv_files(self, folder):
        made = folder(text=TEXT, labels__parquet={"id": ["a", "b", "c"], "y": [2, 1, 2]})
        assert read_views(made).y.tolist() == [1, 0, 1]

    def test_a_column_by_name(self, folder):
        made = folder(text=TEXT, labels="id,size,kind\na,1,x\nb,2,y\nc,2,y\n")
        assert read_views(made, labels="kind").class_names.tolist() == ["x", "y"]
        with pytest.raises(ValueError, match=r"labels\.csv has columns .*; expected 'id' and one"):
            read_views(made)
        with pytest.raises(ValueError, match="expected 'id' and 'colour'"):
            read_views(made, labels="colour")

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ("id,y\na,1\n", r"labels\.csv has no label for 2 of 3 samples \('c', 'b'\)"),
            ("id,y\na,1\nb,\nc,1\n", r"labels\.csv has no label for 1 of 3 samples \('b'\)"),
        ],
    )
    def test_labels_of_some_leave_the_views_without_classes(self, folder, labels, message):
        made = folder(text=TEXT, image=IMAGE, labels=labels)
        with pytest.warns(UserWarning, match=message):
            data = read_views(made)
        assert data.y is None
        assert data.views.n_samples == 3

    def test_labels_of_unknown_ids_are_reported(self, folder):
        made = folder(text=TEXT, labels="id,y\na,1\nb,2\nc,1\nz,2\n")
        with pytest.warns(UserWarning, match=r"labels\.csv has labels for 1 ids .* \('z'\)"):
            assert read_views(made).y.tolist() == [0, 1, 0]

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ("id,y\na,1\nb,1\nc,1\na,2\n", "id 'a' has labels '1' and '2'"),
            ("name,y\na,1\n", r"labels\.csv has no column 'id'; it has 'name', 'y'"),
        ],
    )
    def test_labels_that_do_not_fit(self, folder, labels, message):
        with pytest.raises(ValueError, match=message):
            read_views(folder(text=TEXT, image=IMAGE, labels=labels))

    def test_no_file_of_labels(self, folder):
        with pytest.raises(ValueError, match=r"labels='y' names a column of 'labels\.csv'"):
            read_views(folder(text=TEXT), labels="y")


class TestIds:
    def test_ids_are_strings(self, folder):
        made = folder(text="id,x\n001,1\nNA,2\n", image="id,z\nNA,5\n001,6\n")
        assert read_views(made).sample_ids.tolist() == ["NA", "001"]

    def test_whole_numbers_in_parquet_files(self, folder):
        made = folder(
            a__parquet={"id": [7, 8], "x": [1.0, 2.0]}, b__parquet={"id": [8, 7], "z": [3, 4]}
        )
        data = read_views(made)
        assert data.sample_ids.tolist() == ["7", "8"]
        assert data.views["b"].tolist() == [[4], [3]]
        assert data.views["b"].dtype == np.int64

    @pytest.mark.parametrize("name", ["ID", "sample_id", "", "Unnamed: 0", "patient"])
    def test_names_of_the_column(self, folder, name):
        made = folder(a=f"{name},x\na,1\nb,2\n", b=f"z,{name}\n3,b\n4,a\n")
        assert read_views(made).views["b"].tolist() == [[4], [3]]

    def test_a_column_by_name(self, folder):
        made = folder(a="id,key,x\n1,a,1\n2,b,2\n", b="id,key,x\n2,a,4\n1,b,3\n")
        assert read_views(made, id_column="key").views["b"].tolist() == [[2, 4], [1, 3]]
        with pytest.raises(ValueError, match=r"a\.csv has no column 'name'; it has 'id', 'key'"):
            read_views(made, id_column="name")

    def test_none_in_common(self, folder):
        with pytest.raises(
            ValueError, match=r"no id column is common to all files.*a\.csv: 'k', 'x'"
        ):
            read_views(folder(a="k,x\na,1\n", b="n,z\na,1\n"))

    def test_several_in_common(self, folder):
        with pytest.raises(ValueError, match=r"2 columns are in all files \('u', 'w'\) and none"):
            read_views(folder(a="u,w\na,1\n", b="u,w\na,1\n"))

    def test_no_id_in_common(self, folder):
        message = r"no id occurs in any two of a\.csv \('p', 'q'\), b\.csv \('r'\)"
        with pytest.raises(ValueError, match=message):
            read_views(folder(a="id,x\np,1\nq,2\n", b="id,x\nr,1\n"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "text.csv is empty; expected a table"),
        ("\n\n", "text.csv is empty; expected a line of column names"),
        ("id,x\n", "text.csv has no rows"),
        ("id\na\n", "text.csv has no column besides 'id'"),
        ("id,x\na,1\nb,2\na,3\n", "text.csv: id 'a' is in row 1 and in row 3"),
        ("id,x\na,1\n,2\n", "text.csv: row 2 has no id"),
        ("id,x,y\na,1,2\nb,3,red\n", "text.csv: column 'y' holds 'red' in line 3; expected num"),
        ("id,x\na,1\nb,\n", r"1 samples have no value in any view \(ids 'b'\); remove their"),
        ("id,x\na,1,5\n", "text.csv: "),
        ("id,x,x\na,1,5\n", "text.csv has more than one column 'x'"),
        ("id,x, x\na,1,5\n", "text.csv has more than one column 'x'"),
        ("id,x\na,inf\nb,1\n", "view 'text' holds infinity"),
        ("id,a,b\nq,1,2\nr,1,2,3\n", "text.csv: line 3 has 4 fields and the header names 3"),
        ("id,note\na,one\nb,two\n", "view 'text' has no features left"),
        (b"\x00\x01\x02\x03", "set: "),
    ],
)
def test_tables_that_cannot_be_views(folder, content, message):
    made = folder(text=content)
    with pytest.raises(ValueError, match=message) as caught:
        read_views(made)
    assert str(caught.value).startswith(f"{made}: ")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "text.parquet is empty"),
        (b"PAR1 and no more", "text.parquet: not a readable Parquet file"),
        ({"id": ["a"], "x": [[1.0]]}, "text.parquet: column 'x' holds list"),
        ({"id": ["a", "b"], "x": [1.0, None]}, r"no value in any view \(ids 'b'\)"),
        ({"id": [["a"]], "x": [1.0]}, "column 'id' holds list.*; expected strings"),
    ],
)
def test_parquet_files_that_cannot_be_views(folder, content, message):
    with pytest.raises(ValueError, match=message):
        read_views(folder(text__parquet=content))


def test_a_truncated_parquet_file(folder):
    made = folder(text__parquet=parquet(TEXT))
    content = (made / "text.parquet").read_bytes()
    for end in range(1, len(content), 37):
        (made / "text.parquet").write_bytes(content[:end])
        with pytest.raises(ValueError, match=r"text\.parquet: not a readable Parquet file"):
            read_views(made)


def test_both_kinds_of_table(folder):
    with pytest.raises(ValueError, match=r"several kinds of table.*'text.csv'; expected"):
        read_views(folder(text=TEXT, image__parquet=parquet(IMAGE)))


def test_two_files_of_labels(folder):
    with pytest.raises(ValueError, match=r"labels\.csv and labels\.parquet both"):
        read_views(folder(text=TEXT, labels="id,y\n", labels__parquet={"id": ["a"], "y": [1]}))


def test_files_of_other_kinds_are_no_views(folder):
    made = folder(text=TEXT, README__md="words", __hidden="id\n")
    (made / "more.csv").mkdir()
    assert read_views(made).views.names == ("text",)
    (made / "text.csv").unlink()
    with pytest.raises(ValueError, match=r"README\.md.*; expected \.csv, \.tsv or \.parquet files"):
        read_views(made)


@pytest.mark.slow
def test_a_line_of_more_than_a_megabyte(folder):
    width = 300_000
    head = ",".join(["id", *(f"x{d}" for d in range(width))])
    rows = ["a," + "1," * (width - 1) + "2", "b," + "3," * (width - 1) + "4"]
    (array,) = read_views(folder(text="\n".join([head, *rows]))).views
    assert array.shape == (2, width)
    assert array[:, -1].tolist() == [2, 4]


def test_quotes_and_marks_of_order(folder):
    made = folder(text='\ufeff"id","one, two"\n"a\nb",1\nc,2\n')
    data = read_views(made)
    assert data.sample_ids.tolist() == ["a\nb", "c"]
    assert data.views.feature_names[0].tolist() == ["one, two"]


@pytest.mark.parametrize(("suffix", "mark"), [("csv", ","), ("tsv", "\t")])
def test_blanks_around_the_names_of_columns_are_no_part_of_them(folder, suffix, mark):
    files = {
        f"text__{suffix}": " id, red hue , on\nb, 1,true\na, 2,false\n".replace(",", mark),
        f"labels__{suffix}": "id, kind, label\na,x,cat\nb,y,dog\n".replace(",", mark),
    }
    data = read_views(folder(**files), labels="kind")
    assert data.views.feature_names[0].tolist() == ["red hue", "on"]
    assert data.sample_ids.tolist() == ["b", "a"]
    assert data.class_names[data.y].tolist() == ["y", "x"]
    np.testing.assert_array_equal(data.views["text"], [[1, 1], [2, 0]])


def test_ids_and_presence_outlive_other_formats(folder, tmp_path):
    with pytest.warns(UserWarning, match="misses 1 of 3 ids"):
        data = read_views(folder(text=TEXT, image=IMAGE[: -len("b,20\n")]))
    for suffix in (".npz", ".mat"):
        write_views(tmp_path / f"copy{suffix}", data)
        copy = read_views(tmp_path / f"copy{suffix}")
        assert copy.sample_ids.tolist() == data.sample_ids.tolist()
        assert copy.views.present.tolist() == data.views.present.tolist()
        common = read_views(tmp_path / f"copy{suffix}", samples="common")
        assert common.sample_ids.tolist() == ["c", "a"]
        assert common.views.n_samples == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"labels": "y"}, r"set\.npz: received labels='y'"),
        ({"id_column": "id"}, r"set\.npz: received id_column='id'"),
        ({"samples": "some"}, "samples='some'; expected 'all' or 'common'"),
    ],
)
def test_options_that_do_not_apply(tmp_path, options, message):
    write_views(tmp_path / "set.npz", [np.eye(3)])
    with pytest.raises(ValueError, match=message):
        read_views(tmp_path / "set.npz", **options)


def test_a_missing_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match=r"needs pandas: pip install 'manyview\[io\]'"):
        read_views(folder(text=TEXT))


def test_a_first_line_of_numbers_is_no_header(folder):
    made = folder(text="s0,0.1,0.2\ns1,1,2\n", image="s0,7.5\ns1,8\n")
    with pytest.raises(ValueError, match=r"image\.csv begins with .*s0.*looks like a sample"):
        read_views(made)


def test_columns_may_be_called_by_numbers(folder):
    # as pandas writes frames without names; one has a column more, so that "key" alone is shared
    made = folder(text="key,0,1\na,1,2\nb,3,4\n", image="key,red\na,10\nb,20\n")
    assert read_views(made).views["text"].tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("suffix", "mark"), [("csv", ";"), ("csv", "\t"), ("tsv", ","), ("tsv", "|")]
)
def test_another_separator_is_detected(folder, suffix, mark):
    text, image = (table.replace(",", mark) for table in (TEXT, IMAGE))
    data = read_views(folder(**{f"text__{suffix}": text, f"image__{suffix}": image}))
    assert data.views["text"].tolist() == [[5, 6.5], [1, 2], [3, 4]]
    assert ("tab" if mark == "\t" else repr(mark)) in data.notes[0]


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_that_pandas_wrote_is_no_feature(folder, name):
    made = folder(text=f"{name},id,apple\n0,a,1\n1,b,2\n", image=IMAGE)
    with pytest.raises(ValueError, match=r"text\.csv has a column without a name besides 'id'"):
        read_views(made)


def test_the_folder_at_hand_has_its_name(folder, monkeypatch):
    monkeypatch.chdir(folder(text=TEXT, image=IMAGE))
    assert read_views(".").name == "set"


class TestIndexesOfPandas:
    """pandas writes an index that is not 0, 1, 2, ... into Parquet files, as a column."""

    frame = pd.DataFrame({"id": list("abcd"), "x": [1.0, 2.0, 3.0, 4.0]})

    @pytest.mark.parametrize("name", [None, "row"])
    def test_are_no_features(self, tmp_path, name):
        self.frame.iloc[[3, 0, 2]].rename_axis(name).to_parquet(tmp_path / "a.parquet")
        self.frame.to_parquet(tmp_path / "b.parquet")
        data = read_views(tmp_path, samples="common")
        assert data.views.n_features == [1, 1]
        assert data.sample_ids.tolist() == ["d", "a", "c"]

    def test_do_not_tell_the_samples_where_another_column_may(self, tmp_path):
        patients = self.frame.rename(columns={"id": "patient"}).assign(patient=[4, 3, 2, 1])
        patients.iloc[[0, 2, 3]].to_parquet(tmp_path / "a.parquet")
        patients.iloc[[2, 1, 3]].rename(columns={"x": "z"}).to_parquet(tmp_path / "b.parquet")
        with pytest.raises(ValueError, match=r"2 columns are in all files .*id_column"):
            read_views(tmp_path)
        data = read_views(tmp_path, id_column="patient", samples="common")
        assert data.views.n_features == [1, 1]
        assert data.sample_ids.tolist() == ["2", "1"]

    def test_are_no_labels(self, tmp_path):
        self.frame.to_parquet(tmp_path / "a.parquet")
        labels = pd.DataFrame({"id": list("abcd"), "species": [1, 1, 2, 2]}).iloc[[3, 0, 1, 2]]
        labels.to_parquet(tmp_path / "labels.parquet")
        assert read_views(tmp_path).y.tolist() == [0, 0, 1, 1]

    def test_may_tell_the_samples(self, tmp_path):
        for name in "ab":
            self.frame.set_index("id").to_parquet(tmp_path / f"{name}.parquet")
        data = read_views(tmp_path)
        assert data.views.n_features == [1, 1]
        assert data.sample_ids.tolist() == list("abcd")


@pytest.mark.parametrize("name", ["image.txt", "image.xlsx", "image.tab"])
def test_tables_of_other_kinds_are_warned_of(folder, name):
    made = folder(text=TEXT)
    (made / name).write_text("id\tred\na\t1\n")
    with pytest.warns(UserWarning, match=rf"'{name}' is ignored"):
        assert read_views(made).views.n_views == 1


def test_links_to_nothing_are_warned_of(folder):
    made = folder(text=TEXT)
    (made / "image.csv").symlink_to(made / "nowhere.csv")
    with pytest.warns(UserWarning, match=r"'image\.csv' is ignored: a broken link"):
        assert read_views(made).views.n_views == 1


@pytest.mark.parametrize("name", ["README.txt", "notes of mine.txt", "~$text.csv", "figure.png"])
def test_what_is_no_table_is_left_out_without_a_word(folder, name):
    made = folder(text=TEXT)
    (made / name).write_bytes(b"\xff\xfe")
    assert read_views(made).views.n_views == 1


def test_columns_of_true_and_false_are_numbers(folder):
    made = folder(text="id,male,old,x\na,True,false,1\nb,FALSE,true,2.5\n")
    array = read_views(made).views.arrays[0]
    np.testing.assert_array_equal(array, [[1, 0, 1], [0, 1, 2.5]])


def test_numbers_among_true_and_false_are_rejected(folder):
    with pytest.raises(ValueError, match=r"column 'male' holds '7' in line 3; expected true or"):
        read_views(folder(text="id,male\na,True\nb,7\n"))


@pytest.mark.parametrize("opener", [gzip.open, bz2.open, lzma.open])
def test_compressed_tables_are_read(folder, opener):
    made = folder(text=TEXT)
    suffix = {gzip.open: "gz", bz2.open: "bz2", lzma.open: "xz"}[opener]
    with opener(made / f"image.csv.{suffix}", "wt") as file:
        file.write(IMAGE)
    data = read_views(made)
    assert data.views.names == ("image", "text")
    assert data.sample_ids.tolist() == ["c", "a", "b"]


def test_a_letter_that_is_not_utf8_far_down(folder):
    lines = [f"p{n},{n}\n".encode() for n in range(9000)]
    data = read_views(folder(text=b"id,x\n" + b"".join(lines) + b"caf\xe9,1\n"))
    assert data.sample_ids[-1] == "café"
    assert "cp1252" in data.notes[0]


PATIENTS = (
    "patient_id,age,sex,bmi,ENSG01,ENSG02,stage,visit\n"
    "007,31,f,20.5,1,2,I,2020-01-02\n008,45,m,,3,4,II,2020-02-03\n"
    "009,62,f,31,,,I,2020-03-04\n010,50,m,25,5,6,II,2020-04-05\n"
)


@pytest.fixture
def patients(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text(PATIENTS)
    return path


class TestSingleTable:
    """A table is cut into views by its columns."""

    def test_columns_and_patterns(self, patients):
        views = {"clinic": ["sex", "age", "bmi"], "genes": "ENSG*"}
        data = read_views(patients, views=views)
        assert data.name == "patients"
        assert data.sample_ids.tolist() == ["007", "008", "009", "010"]
        assert data.views.names == ("clinic", "genes")
        names = [own.tolist() for own in data.views.feature_names]
        assert names == [["age", "sex=f", "sex=m", "bmi"], ["ENSG01", "ENSG02"]]
        assert data.views.present.tolist() == [[True, True]] * 2 + [[True, False], [True, True]]
        clinic = data.views["clinic"]
        np.testing.assert_array_equal(clinic[1], [45, 0, 1, np.nan])
        notes = "; ".join(data.notes)
        assert "2 columns are in no view: 'stage', 'visit'" in notes
        assert "1 of 16 cells are empty (6.2%)" in notes
        assert "'genes': 1 samples have no value" in notes

    def test_empty_cells_are_unknown(self, patients):
        data = read_views(patients, views={"clinic": ["age", "bmi"], "genes": "ENSG*"})
        assert np.isnan(data.views["clinic"][1, 1])
        assert data.views.unknown == (1 / 8, 0.0)
        known = read_views(patients, views={"clinic": "age", "genes": "ENSG*"})
        assert known.views.unknown is None
        assert known.views.present.tolist()[2] == [True, False]

    def test_all_columns_are_one_view_without_dates(self, patients):
        with pytest.warns(UserWarning, match=r"dropped from view 'patients': 'visit' \(dates\)"):
            data = read_views(patients, drop=["ENSG*", "bmi"], labels="stage")
        assert [names.tolist() for names in data.views.feature_names] == [["age", "sex=f", "sex=m"]]
        assert data.class_names[data.y].tolist() == ["I", "II", "I", "II"]

    def test_a_name_goes_before_a_pattern_and_patterns_in_their_order(self, patients):
        views = {"all": "*", "one": ["age"], "genes": "E*"}
        with pytest.raises(ValueError, match="view 'genes' has no columns that are not in another"):
            read_views(patients, views=views, drop="visit")
        data = read_views(patients, views={"one": "age", "genes": "E*", "all": "*"}, drop="visit")
        assert data.views.n_features == [1, 2, 5]

    @pytest.mark.parametrize(
        ("views", "message"),
        [
            (
                {"a": ["agee"]},
                r"no column 'agee'; did you mean 'age'\? expected some of 'age', 'sex'",
            ),
            ({"a": "TP*"}, r"view 'a': patients\.csv has no column 'TP\*'"),
            ({"a": ["age"], "b": ["age"]}, "column 'age' is named for the views 'a' and 'b'"),
        ],
    )
    def test_views_that_do_not_fit(self, patients, views, message):
        with pytest.raises(ValueError, match=message):
            read_views(patients, views=views)

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("views.json", '{"clinic": ["age"], "genes": "ENSG*"}'),
            ("views.yaml", "clinic: [age]\ngenes: ENSG*\n"),
        ],
    )
    def test_a_file_of_views(self, patients, tmp_path, name, text):
        (tmp_path / name).write_text(text)
        assert read_views(patients, views=tmp_path / name).views.n_features == [1, 2]

    @pytest.mark.parametrize(
        "text", ["{", "[]", "{}", '{"a": 1}', '{"a": [1]}', '{"a": {"b": "c"}}', '{"a": []}']
    )
    def test_files_that_hold_no_views(self, patients, tmp_path, text):
        for name in ("views.json", "views.yml"):
            (tmp_path / name).write_text(text)
            with pytest.raises(ValueError, match=rf"{name}: (expected the col|not a readable)"):
                read_views(patients, views=str(tmp_path / name))
        with pytest.raises(FileNotFoundError, match=r"none\.json"):
            read_views(patients, views="none.json")

    def test_a_column_of_ids_may_have_any_name(self, tmp_path):
        path = tmp_path / "people.csv"
        path.write_text("name,x,kind\nanna,1,u\nben,2,w\ncleo,3,u\n")
        data = read_views(path)
        assert data.sample_ids.tolist() == ["anna", "ben", "cleo"]
        assert data.views.feature_names[0].tolist() == ["x", "kind=u", "kind=w"]
        cut = read_views(path, views={"a": "x"})
        assert cut.sample_ids.tolist() == ["anna", "ben", "cleo"]
        assert "1 columns are in no view: 'kind'" in "; ".join(cut.notes)
        new = read_views(path, like={"a": np.array(["kind=w", "kind=u"])})
        assert new.sample_ids.tolist() == ["anna", "ben", "cleo"]
        assert new.views["a"].tolist() == [[0, 1], [1, 0], [0, 1]]
        numbers = read_views(path, views={"a": "x"}, drop="name")
        assert numbers.sample_ids is None
        assert read_views(path, id_column="x", drop="name").sample_ids.tolist() == ["1", "2", "3"]
        path.write_text("nr,x\n01,1\n02,2\n")
        assert read_views(path, views={"a": "x"}).sample_ids.tolist() == ["01", "02"]
        path.write_text("PatientID,x\n1,1\n1,2\n")
        with pytest.warns(UserWarning, match="'PatientID' seems to hold ids"):
            assert read_views(path).sample_ids is None
        with pytest.raises(ValueError, match="id '1' is in row 1 and in row 2"):
            read_views(path, id_column="PatientID")

    def test_classes_are_no_features_unless_named(self, tmp_path):
        path = tmp_path / "people.csv"
        path.write_text("id,x,class\na,1,2\nb,2,1\nc,4,1\n")
        data = read_views(path)
        assert data.y.tolist() == [1, 0, 0]
        assert data.views.n_features == [1]
        named = read_views(path, views={"all": ["x", "class"]})
        assert named.y is None
        assert named.views.n_features == [2]
        path.write_text("id,x,class\na,1,2\nb,2,\nc,4,1\n")
        with pytest.warns(UserWarning, match="no label for 1 of 3"):
            assert read_views(path).y is None

    def test_columns_of_some_of_several_tables_are_dropped(self, folder):
        made = folder(text=",id,apple,pear\n0,a,1,2\n1,b,3,4\n2,c,4,6\n", image=IMAGE)
        data = read_views(made, drop=["p*", ""])
        assert [names.tolist() for names in data.views.feature_names] == [["red"], ["apple"]]
        for option in ("drop", "categories"):
            with pytest.raises(ValueError, match=f"{option}.* has no column 'plum'"):
                read_views(made, **{option: ["plum"]})

    def test_several_tables_are_not_cut(self, folder):
        with pytest.raises(ValueError, match="views, which cut a single table"):
            read_views(folder(text=TEXT, image=IMAGE), views={"a": "x"})

    def test_other_files_take_no_options_of_tables(self, tmp_path):
        write_views(tmp_path / "set.npz", [np.eye(3)])
        with pytest.raises(ValueError, match=r"set\.npz: received sep=';', which is for tables"):
            read_views(tmp_path / "set.npz", sep=";")


class TestFeather:
    frame = pd.DataFrame(
        {
            "id": ["a", "b", "c"],
            "x": [1.0, None, 3.0],
            "n": pd.array([1, 2, 3], dtype="Int32"),
            "sex": pd.Categorical(["f", "m", "f"]),
            "city": ["Ulm", "Bonn", None],
            "seen": pd.to_datetime(["2020-01-01"] * 3),
        }
    )

    @pytest.mark.parametrize("suffix", ["feather", "parquet"])
    def test_types_are_those_of_the_frame(self, tmp_path, suffix):
        path = tmp_path / f"people.{suffix}"
        getattr(self.frame, f"to_{suffix}")(path)
        with pytest.warns(UserWarning, match=r"'seen' \(dates\)"):
            data = read_views(path)
        assert data.sample_ids.tolist() == ["a", "b", "c"]
        names = ["x", "n", "sex=f", "sex=m", "city=Bonn", "city=Ulm"]
        assert data.views.feature_names[0].tolist() == names
        expected = [[1, 1, 1, 0, 0, 1], [np.nan, 2, 0, 1, 1, 0], [3, 3, 1, 0, np.nan, np.nan]]
        np.testing.assert_array_equal(data.views.arrays[0], expected)

    def test_a_folder_of_them(self, tmp_path):
        self.frame[["id", "n"]].to_feather(tmp_path / "a.feather")
        self.frame[["id", "sex"]].to_feather(tmp_path / "b.feather")
        assert read_views(tmp_path).views.n_features == [1, 2]

    def test_damage_is_reported(self, tmp_path):
        (tmp_path / "a.feather").write_bytes(b"ARROW1 and no more")
        with pytest.raises(ValueError, match=r"a\.feather: not a readable Feather file"):
            read_views(tmp_path / "a.feather")

    @pytest.mark.filterwarnings("ignore::UserWarning")
    def test_wrong_offsets_are_not_followed(self, tmp_path):
        path = tmp_path / "a.feather"
        self.frame[["id", "city"]].to_feather(path, compression="uncompressed")
        content = path.read_bytes()
        rejected = 0
        for at in range(content.index(b"Ulm") - 400, content.index(b"Ulm") + 10):
            path.write_bytes(content[:at] + b"\x7f" + content[at + 1 :])
            try:
                read_views(path)
            except ValueError:
                rejected += 1
        assert rejected > 10


class TestWorkbooks:
    @pytest.fixture
    def book(self, tmp_path):
        openpyxl = pytest.importorskip("openpyxl")

        def write(**sheets):
            made = openpyxl.Workbook()
            made.remove(made.active)
            for name, rows in sheets.items():
                sheet = made.create_sheet(name)
                for row in rows:
                    sheet.append(row)
            made.save(tmp_path / "study.xlsx")
            return tmp_path / "study.xlsx"

        return write

    def test_a_sheet_is_a_view(self, book):
        path = book(
            clinic=[
                ["id", "age", "sex", "seen"],
                [7, 31, "f", date(2020, 1, 2)],
                ["008", 45.5, "m", date(2020, 1, 2)],
                ["c", None, "f", None],
            ],
            genes=[
                [],
                [None, "id", "TP53", "BRCA1"],
                [None, "c", 1.5, "2.5"],
                [None, "008", "n/a", 3],
                [None, 7.0, 4, 5],
                [],
            ],
            labels=[["id", "kind"], [7, "x"], ["008", "y"], ["c", "x"]],
            Notes=[["made by hand"]],
            empty=[],
        )
        with pytest.warns(UserWarning, match=r"sheet 'clinic': .*'seen' \(dates\)"):
            data = read_views(path)
        assert data.name == "study"
        assert data.views.names == ("clinic", "genes")
        assert data.sample_ids.tolist() == ["7", "008", "c"]
        expected = [[31, 1, 0], [45.5, 0, 1], [np.nan, 1, 0]]
        np.testing.assert_array_equal(data.views["clinic"], expected)
        np.testing.assert_array_equal(data.views["genes"], [[4, 5], [np.nan, 3], [1.5, 2.5]])
        assert data.class_names[data.y].tolist() == ["x", "y", "x"]

    def test_one_sheet_is_a_table(self, book):
        path = book(Sheet=[["x", "y", "ok"], [1, "1,5", True], [2, "2,5", False]])
        data = read_views(path, views={"a": ["x", "ok"], "b": "y"})
        assert data.views["a"].tolist() == [[1, 1], [2, 0]]
        assert data.views["b"].tolist() == [[1.5], [2.5]]

    def test_a_wrong_cell_is_named_by_sheet_row_and_column(self, book):
        path = book(clinic=[[], ["id", "age"], ["a", 1], [], ["b", 2], ["c", "oops"]])
        with pytest.raises(
            ValueError, match=r"study\.xlsx: sheet 'clinic': column 'age' holds 'oops' in row 6"
        ):
            read_views(path)

    def test_what_is_no_workbook(self, book, tmp_path):
        path = tmp_path / "study.xlsx"
        path.write_bytes(b"words")
        with pytest.raises(ValueError, match=r"study\.xlsx: not a readable workbook"):
            read_views(path)
        with pytest.raises(ValueError, match="the workbook holds no table"):
            read_views(book(a=[]))

    def test_a_missing_package_is_named(self, book, monkeypatch):
        path = book(a=[["x"], [1], [2]])
        monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
        with pytest.raises(ImportError, match=r"needs openpyxl: pip install 'manyview\[io\]'"):
            read_views(path)
