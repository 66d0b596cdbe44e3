"""Tables, and matrices whose cells are coloured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase

from grafana_foundation_sdk.builders import table as tables
from grafana_foundation_sdk.builders.common import TableSortByFieldState
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.models.common import FieldTextAlignment, TableCellDisplayMode
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, FieldColorModeId
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.panels import threshold_colours
from dashboards.panels.colours import Override, named
from dashboards.panels.panel_options import apply_panel_options
from dashboards.signal import Signal

Values = Sequence[tuple[str, object]]


_NOTHING = {"type": "special", "options": {"match": "null", "result": {"text": "-", "color": "transparent"}}}
"""No bar, rather than one at 0 in the colour of the worst verdict."""


@dataclass(frozen=True)
class Column:
    """How a column is drawn. most: the value of a full bar, which makes it bars; width: in pixels."""

    unit: str = "none"
    decimals: int | None = None
    verdict: ThresholdsConfig | None = None
    most: float | None = None
    width: int | None = None
    more: Values = field(default=())

    def override(self, name: str) -> Override:
        """As Grafana 9 has it; from 10 on Grafana translates it itself."""
        values: list[tuple[str, object]] = [("unit", self.unit)]
        if self.decimals is not None:
            values.append(("decimals", self.decimals))
        if self.verdict is not None:
            values.append(("thresholds", self.verdict.build()))
            values.append(("custom.displayMode", "color-text"))
        if self.most is not None:
            values = [value for value in values if value[0] != "custom.displayMode"]
            values += [("min", 0), ("max", self.most), ("custom.displayMode", "basic"), ("mappings", [_NOTHING])]
        if self.width is not None:
            values.append(("custom.width", self.width))
        return named(name, *values, *self.more)


def table(
    signal: Signal,
    size: tuple[int, int],
    labels: Mapping[str, Column],
    columns: Mapping[str, Column],
    *,
    called: Mapping[str, str] | None = None,
    numbered: str = "",
    empty: str = "-",
) -> tables.Panel:
    """A line for each combination of `labels`, a column for each query of the signal, by its legend. Lines are in the
    order in which the first query has them; those that it lacks come after. called: other names for labels;
    numbered: the label that is a number, and sorts.
    """
    panel = apply_panel_options(tables.Panel(), signal, size, PromQueryFormat.TABLE)
    queries = [f"Value #{letter}" for letter in ascii_uppercase[: len(signal.series)]]
    renamed = dict(zip(queries, (series.legend for series in signal.series), strict=True))
    if len(renamed) == 1:
        renamed = {"Value": signal.series[0].legend}
    order = [*labels, *renamed]
    panel.with_transformation(DataTransformerConfig(id_val="merge", options={}))
    if numbered:
        panel.with_transformation(_as_numbers(numbered)).with_transformation(_sorted_by(numbered))
    panel.with_transformation(
        DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {name: place for place, name in enumerate(order)},
                "renameByName": {**renamed, **(called or {})},
            },
        )
    )
    panel.thresholds(threshold_colours.none()).no_value(empty)
    for name, column in {**labels, **columns}.items():
        panel.with_override(*column.override(name))
    return panel


def matrix(
    signal: Signal,
    size: tuple[int, int],
    *,
    rows: str,
    columns: str,
    most: float | None = None,
    colours: FieldColorModeId = FieldColorModeId.CONTINUOUS_BL_PU,
    width: int | None = None,
    called: Mapping[str, str] | None = None,
) -> tables.Panel:
    """A cell for each pair of the labels `rows` and `columns`, both numbers, coloured by its value. width: of a column;
    called: names of rows.
    """
    panel = apply_panel_options(tables.Panel(), signal, size, PromQueryFormat.TABLE)
    corner = f"{rows}\\{columns}"
    panel.transformations(
        [
            _as_numbers(columns),
            _sorted_by(columns),
            DataTransformerConfig(
                id_val="groupingToMatrix", options={"columnField": columns, "rowField": rows, "valueField": "Value"}
            ),
            _as_numbers(corner),
        ]
    )
    panel.color_scheme(FieldColor().mode(colours)).min(0).decimals(0)
    panel.display_mode(TableCellDisplayMode.COLOR_BACKGROUND_SOLID).align(FieldTextAlignment.CENTER)
    if width is not None:
        panel.width(width)
    if most is not None:
        panel.max(most)
    names = [("mappings", [_mapped(called)])] if called else []
    panel.with_override(*named(corner, ("custom.displayMode", "auto"), ("custom.width", 110), ("unit", "none"), *names))
    return panel.sort_by([TableSortByFieldState().display_name(corner).desc(False)])


def _as_numbers(name: str) -> DataTransformerConfig:
    """Else 10 comes before 2."""
    conversion = {"targetField": name, "destinationType": "number"}
    return DataTransformerConfig(id_val="convertFieldType", options={"fields": {}, "conversions": [conversion]})


def _mapped(names: Mapping[str, str]) -> dict[str, object]:
    return {"type": "value", "options": {value: {"text": name} for value, name in names.items()}}


def _sorted_by(name: str) -> DataTransformerConfig:
    return DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": name}]})
