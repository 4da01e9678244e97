import csv

import pytest

from manyview.experiment import Run, summarise
from manyview.paper.files import Files
from manyview.paper.significance import write_significance


def test_a_method_that_fails_ranks_last_and_its_differences_tell_of_fewer_sets(tmp_path):
    def scored(method, data, value):
        scores = {} if value is None else {"nmi_geometric": value}
        error = "stopped" if value is None else ""
        return Run(method, data, 0, "default", {}, "none", scores, error=error)

    table = {"MMC": [0.8, 0.8, 0.8], "SEC": [0.5, 0.5, 0.5], "SCMV3DT": [0.9, None, None]}
    runs = [scored(m, d, v) for m, row in table.items() for d, v in zip("pqr", row, strict=True)]
    write_significance(Files(tmp_path), runs, summarise(runs))
    with (tmp_path / "ranks.csv").open() as file:
        ranks = {line["method"]: float(line["mean_rank_nmi"]) for line in csv.DictReader(file)}
    assert ranks == pytest.approx({"MMC": 4 / 3, "SEC": 7 / 3, "SCMV3DT": 7 / 3})
    with (tmp_path / "differences.csv").open() as file:
        sets = {line["other"]: line["n_sets"] for line in csv.DictReader(file)}
    assert sets == {"SEC": "3", "SCMV3DT": "1"}
