"""What the default list of operators is made of, and the campaign that makes it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from attack import guard, op_db_list
from attack.evidence import text_of
from attack.journal import Journal, Record

from opbridge.kernels import aten as aten_kernel

EVIDENCE = Path(aten_kernel.__file__).parent / "evidence"
LINE = re.compile(r'OPERATOR\("([\w.]+)", (\d+), (\d+), "([^"]*)"\)')
OF_OP_DB = {
    *("aten::_scaled_mm", "aten::_scaled_mm_v2", "aten::geqrf", "aten::hash_tensor", "aten::histogramdd"),
    *("aten::histogramdd.TensorList_bins", "aten::linalg_cond", "aten::linalg_eig", "aten::linalg_eigh"),
    *("aten::linalg_eigvals", "aten::linalg_eigvalsh", "aten::linalg_ldl_factor", "aten::linalg_ldl_factor_ex"),
    *("aten::linalg_ldl_solve", "aten::linalg_lstsq", "aten::linalg_matrix_norm.str_ord"),
    *("aten::linalg_matrix_rank.atol_rtol_tensor", "aten::linalg_matrix_sqrth", "aten::linalg_pinv.atol_rtol_float"),
    *("aten::linalg_pinv.atol_rtol_tensor", "aten::linalg_polar", "aten::linalg_svd", "aten::linalg_svdvals"),
    *("aten::matrix_exp", "aten::ormqr", "aten::pinverse", "aten::resize_", "aten::resize_as_"),
    *("aten::scaled_dot_product_attention", "aten::segment_reduce", "aten::special_hermite_polynomial_h"),
    *("aten::special_hermite_polynomial_he", "aten::special_laguerre_polynomial_l"),
    *("aten::special_legendre_polynomial_p", "aten::svd", "torch_nn::_linear_cross_entropy_batch_chunked"),
    "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction",
}
"""What models of PyTorch's test database were seen to take by the route aten."""

NAMED = {
    "aten::resize_": "it writes to its arguments",
    "aten::resize_as_": "it writes to its arguments",
    "torch_nn::_linear_cross_entropy_batch_chunked": "it does not belong to aten",
    "torch_nn::_linear_cross_entropy_batch_chunked_no_reduction": "it does not belong to aten",
}
NEW = {"aten::linalg_matrix_sqrth", "aten::linalg_polar"}
"""Those that not every release has."""

TABLES = sorted(EVIDENCE.glob("torch_*.def"))


def rows(table):
    return [LINE.fullmatch(line).groups() for line in table.read_text().splitlines() if not line.startswith("//")]


def numbers_of(release):
    return tuple(int(part) for part in release.split(".")[:2])


RELEASES = {numbers_of(table.stem.removeprefix("torch_").replace("_", ".")): table for table in TABLES}
"""The table of each release that there is evidence for."""


def counting_for(release):
    """The releases whose evidence counts for one: its own, or those on either side, or the two nearest ones."""
    known, wanted = sorted(RELEASES), numbers_of(release)
    if wanted in known:
        return [wanted]
    below = sum(each < wanted for each in known)
    first = min(max(below - 1, 0), len(known) - 2)
    return known[first : first + 2]


def names_with_evidence(release):
    """The operators that have enough evidence in each table that counts for a release."""
    return set.intersection(
        *(
            {f"aten::{name}" for name, calls, ran, what in rows(RELEASES[each]) if enough(calls, ran) and not what}
            for each in counting_for(release)
        )
    )


def enough(calls, ran):
    return int(calls) >= 2000 and int(ran) >= 50


@pytest.mark.parametrize("table", TABLES, ids=lambda each: each.stem)
def test_the_tables_of_evidence_are_sorted_and_say_why_operators_are_left_out(table):
    found = rows(table)
    assert [name for name, *_ in found] == sorted((name for name, *_ in found), key=str.encode)
    release = table.stem.removeprefix("torch_").replace("_", ".")
    for name, calls, ran, what in found:
        reason = aten_kernel.missing_evidence(f"aten::{name}", release)
        assert (reason == "") == (enough(calls, ran) and not what), name
        assert what in reason


def test_most_operators_that_have_a_table_are_on_the_list():
    for table in TABLES:
        allowed = [row for row in rows(table) if enough(*row[1:3]) and not row[3]]
        assert len(allowed) > 800 and sum(int(row[1]) for row in allowed) > 500_000


def test_an_operator_without_evidence_is_refused_with_words_that_say_so():
    reason = aten_kernel.missing_evidence("aten::of_tomorrow", "2.15")
    assert "no evidence" in reason and "0 hostile calls" in reason and "2000 calls are needed" in reason


def test_the_list_of_another_release_is_what_the_nearest_ones_have_in_common():
    (major, minor), (last_major, last_minor) = min(RELEASES), max(RELEASES)
    older, newer = f"{major}.{minor - 1}", f"{last_major}.{last_minor + 1}"
    between = [f"{major}.{number}" for number in range(minor, last_minor) if (major, number) not in RELEASES]
    for version in (*between, newer, f"{last_major + 1}.0", older, "1.0"):
        reason = aten_kernel.missing_evidence("aten::of_tomorrow", version)
        one, other = (".".join(map(str, each)) for each in counting_for(version))
        assert f"the list for torch {version} is the intersection of those for {one} and {other}" in reason
        assert aten_kernel.missing_evidence("aten::add.Tensor", version) == ""


def test_a_table_is_written_from_a_journal(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl")
    journal.add(Record("aten::b", calls=2000, ran=100))
    bad = Record("aten::a.out", calls=3, ran=1)
    bad.finding("reads out of bounds", number=2)
    journal.add(bad)
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"operator": "aten::c", "cal')  # of a process that was ended
    text = text_of(Journal(tmp_path / "journal.jsonl"), "2.15")
    assert text.splitlines()[2:] == ['OPERATOR("a.out", 3, 1, "reads out of bounds")', 'OPERATOR("b", 2000, 100, "")']
    other = Journal(tmp_path / "other.jsonl")
    other.add(Record("aten::b", calls=2100, ran=5))
    lines = text_of(other, "2.15", before=text).splitlines()[2:]
    assert lines == ['OPERATOR("a.out", 3, 1, "reads out of bounds")', 'OPERATOR("b", 2100, 5, "")']


def test_operators_of_the_test_database_that_need_the_route_are_on_the_list():
    found = op_db_list.sorted_out(OF_OP_DB)
    release = ".".join(torch.__version__.split(".")[:2])
    here = OF_OP_DB - NAMED.keys() - set(found.elsewhere)
    unknown = here - names_with_evidence(release)
    assert NEW.issuperset(found.elsewhere)
    # What another release has not had cannot be on the list that two have in common.
    assert NEW.issuperset(unknown) and (not unknown or len(counting_for(release)) > 1)
    assert found.listed == sorted(here - unknown)
    assert found.refused == NAMED | {name: aten_kernel.missing_evidence(name, release) for name in unknown}


def test_the_operators_of_a_sweep_are_sorted_out(tmp_path, capsys):
    samples = [{"routes": {"aten::geqrf": "aten", "aten::add.Tensor": "standard"}}, {"routes": None}, {}]
    file = tmp_path / "results.json"
    file.write_text(json.dumps({"samples": samples}))
    op_db_list.main(file)
    assert capsys.readouterr().out == "1 operators by the route aten: 1 may run by default, 0 of them with a check\n"


@pytest.mark.slow
@pytest.mark.thorough  # two campaigns in processes under a guard
def test_the_campaign_finds_what_operators_do_out_of_bounds(tmp_path):
    release = torch.__version__.partition("+")[0]
    torch.save({}, tmp_path / f"samples-{release}.pt")
    file = tmp_path / "journal.jsonl"
    command = [sys.executable, "-m", "attack.operator_server", file, "--calls", "300", "--samples", tmp_path]
    command += ["--only", "aten::_reshape_alias,aten::relu,aten::grid_sampler_2d"]
    subprocess.run(command, check=True, env=_environment(), capture_output=True)
    found = Journal(file).records
    assert found["aten::relu"].calls == 300 and found["aten::relu"].ran > 200 and not found["aten::relu"].findings
    assert found["aten::_reshape_alias"].findings[0]["what"] == "reads out of bounds"
    assert found["aten::grid_sampler_2d"].ran > 30 and not found["aten::grid_sampler_2d"].findings  # it has a check
    subprocess.run(command, check=True, env=_environment(), capture_output=True)
    assert len(Journal(file).all) == 3  # nothing is done again


def _environment():
    import os

    return {**guard.environment(), "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
