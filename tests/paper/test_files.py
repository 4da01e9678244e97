from matplotlib import pyplot as plt

from manyview.paper.files import Files


def test_names_that_differ_have_files_that_differ(tmp_path):
    files = Files(tmp_path)
    for name in ("of a b.csv", "of a_b.csv", "of a/b.csv"):
        files.text(name, name)
    assert [path.name for path in files.written] == ["of_a_b.csv", "of_a_b-2.csv", "of_a_b-3.csv"]
    assert [path.read_text() for path in files.written] == [
        "of a b.csv",
        "of a_b.csv",
        "of a/b.csv",
    ]


def test_older_files_are_replaced(tmp_path):
    for content in ("old", "new"):
        Files(tmp_path).text("table.md", content)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]


def test_names_are_cut_and_keep_their_suffix(tmp_path):
    files = Files(tmp_path)
    files.figure("x" * 300 + ".png", lambda: plt.subplots()[1])
    (path,) = files.written
    assert path.suffix == ".png"
    assert path.stat().st_size > 100
    assert not plt.get_fignums()


def test_a_table_is_quoted_where_it_must_be(tmp_path):
    files = Files(tmp_path)
    files.csv("t.csv", ("method", "seconds"), [("MMC, discrete", 0.5)])
    assert files.written[0].read_text() == 'method,seconds\n"MMC, discrete",0.5\n'
