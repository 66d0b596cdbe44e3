"""The formula of docs/fleet.md is what the real exporter exports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.fleet import cardinality, exposition, sizes
from tools.fleet.cardinality import MAY_BE_ABSENT, Shape

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "fleet.md"


def captured(name: str) -> dict[str, int]:
    return exposition.count((sizes.CAPTURED / f"{name}.metrics").read_text())


def predicted(workers: int) -> dict[str, int]:
    return {**cardinality.of_server(sizes.shape(workers)), **cardinality.of_exporter()}


@pytest.mark.parametrize(("name", "workers"), [("2x8", 2), ("4x8", 4), ("8x8", 8), ("64x16", 64)])
def test_each_metric_has_the_predicted_number_of_series(name: str, workers: int) -> None:
    """But for those that are known only at times, which have fewer."""
    real, formula = captured(name), predicted(workers)
    assert real.keys() <= formula.keys()
    for metric, number in formula.items():
        found = real.get(metric, 0)
        assert found == number or (metric in MAY_BE_ABSENT and found < number), metric


def test_the_terms_add_up_to_the_numbers_of_a_server() -> None:
    """The formula in the guide is linear in its terms."""
    terms = cardinality.coefficients()
    for shape in (
        Shape(workers=8),
        Shape(workers=3, sockets=2, windows=3, backends=4, routes=51, cpus=16, objective=True),
    ):
        worker = (
            terms["worker"] + terms["worker, with waits"] + shape.cpus * terms["worker and CPU, with cpu-residency"]
        )
        expected = (
            terms["server"]
            + shape.workers * worker
            + shape.sockets * terms["socket"]
            + shape.windows * terms["window"]
            + terms["server, with waits"]
            + shape.backends
            + shape.routes
            + shape.apps
            + shape.locks
            + terms["role of other processes"] * shape.roles
            + shape.rules * terms["rule about settings that gives advice"]
            + terms["server, with an objective"] * shape.objective
        )
        assert cardinality.total(cardinality.of_server(shape)) == expected


def test_a_worker_costs_what_the_table_of_metrics_promises() -> None:
    """docs/metrics.md and the formula name one number."""
    text = (GUIDE.parent / "metrics.md").read_text()
    promised = int(re.search(r"A worker costs at most (\d+) series", text)[1])  # type: ignore[index]
    terms = cardinality.coefficients()
    assert terms["worker"] + terms["worker, with waits"] == promised


def test_the_guide_states_the_formula() -> None:
    """With the numbers of the code."""
    terms = cardinality.coefficients()
    rows = dict(re.findall(r"^\| ([a-z][^|]*?) \| (\d+) \|$", GUIDE.read_text(), re.MULTILINE))
    assert {name: int(rows[name]) for name in terms} == terms


def test_the_guide_states_what_follows_from_it() -> None:
    """Numbers of series of real servers, and sizes of fleets, as `python -m tools.fleet series` and `sizes` say "
    "them."""
    text = GUIDE.read_text()
    for table in (sizes.shapes(), sizes.table()):
        assert table in text
    assert f"{sizes.kept('rules', 'report')} series for a server of 8x8 instead of {sizes.kept()}," in text
