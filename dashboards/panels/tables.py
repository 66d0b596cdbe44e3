"""Tables, matrices whose cells are coloured, and the words and columns of verdicts in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_uppercase

from grafana_foundation_sdk.builders import table as tables
from grafana_foundation_sdk.builders.common import TableSortByFieldState
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.models.common import FieldTextAlignment, TableCellDisplayMode, TableCellHeight
from grafana_foundation_sdk.models.dashboard import DataTransformerConfig, FieldColorModeId
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from dashboards.panels import threshold_colours
from dashboards.panels.colours import Override, named
from dashboards.panels.panel_options import apply_panel_options
from dashboards.signal import Signal
from uwsgi_headroom.words.states import STATUSES

Values = Sequence[tuple[str, object]]

BARS, COLOURED_TEXT, PLAIN_TEXT = "basic", "color-text", "auto"
"""How cells are drawn, in the terms of Grafana 9."""

_CELLS: Mapping[str, Mapping[str, object]] = {
    BARS: {"type": "gauge", "mode": "basic", "valueDisplayMode": "color"},
    COLOURED_TEXT: {"type": "color-text"},
    PLAIN_TEXT: {"type": "auto"},
}
"""The same in the terms of Grafana 10 and later, which convert the older terms in some tables but not in all."""


def _nothing(colour: str) -> dict[str, object]:
    return {"type": "special", "options": {"match": "null", "result": {"text": "-", "color": colour}}}


_NO_BAR, _NO_VERDICT = _nothing("transparent"), _nothing("text")
"""For a cell without a value: otherwise it would be a bar at 0, or a text in the colour of the worst threshold."""


@dataclass(frozen=True)
class Column:
    """How a column is drawn. most: draw bars, with this value for a full bar; words: text and colour to show instead of
    a value; width: in pixels; links: links of each cell; hidden: the column is only used by links; wraps: long words
    take another line, from Grafana 11 on.
    """

    unit: str = "none"
    decimals: int | None = None
    verdict: ThresholdsConfig | None = None
    most: float | None = None
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    width: int | None = None
    links: Sequence[Mapping[str, object]] = ()
    hidden: bool = False
    wraps: bool = False

    def override(self, name: str) -> Override:
        """The settings of the column of this name, for Grafana 9 and for later versions."""
        values: list[tuple[str, object]] = [("unit", self.unit)]
        if self.decimals is not None:
            values.append(("decimals", self.decimals))
        if self.verdict is not None:
            values.append(("thresholds", self.verdict.build()))
        if self.most is not None:
            values += [("min", 0), ("max", self.most), ("mappings", [_NO_BAR]), *_cells(BARS)]
        elif self.verdict is not None or self.words:
            words = [_mapped(self.words)] if self.words else []
            values += [("mappings", [*words, _NO_VERDICT]), *_cells(COLOURED_TEXT, wraps=self.wraps)]
        elif self.wraps:
            values += _cells(PLAIN_TEXT, wraps=True)
        if self.width is not None:
            values.append(("custom.width", self.width))
        if self.links:
            values.append(("links", self.links))
        if self.hidden:
            values.append(("custom.hidden", True))
        return named(name, *values)


def _cells(mode: str, *, wraps: bool = False) -> Values:
    options = {**_CELLS[mode], "wrapText": True} if wraps else _CELLS[mode]
    return [("custom.displayMode", mode), ("custom.cellOptions", options)]


def table(
    signal: Signal,
    size: tuple[int, int],
    labels: Mapping[str, Column],
    columns: Mapping[str, Column],
    *,
    called: Mapping[str, str] | None = None,
    numbered: str = "",
    empty: str = "-",
    tall: bool = False,
) -> tables.Panel:
    """A table with a line for each combination of `labels`, and a column for each query of the signal, named by its
    legend. Lines are in the order of the first query; lines that it lacks follow. called: display names of labels;
    numbered: a numeric label to sort by; tall: rows have room for two lines.
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
    if tall:
        panel.cell_height(TableCellHeight.LG)
    for name, column in {**labels, **columns}.items():
        panel.with_override(*column.override(name))
    return panel


def matrix(
    signal: Signal,
    size: tuple[int, int],
    *,
    rows: str,
    columns: str,
    corner: str,
    colours: FieldColorModeId,
    width: int,
    called: Mapping[str, str] | None = None,
) -> tables.Panel:
    """A table with a cell for each pair of the numeric labels `rows` and `columns`, coloured by its value from 0 to 1.
    corner: the header of the column with the names of rows; width: of the other columns, in pixels; called: names of
    rows.
    """
    panel = apply_panel_options(tables.Panel(), signal, size, PromQueryFormat.TABLE)
    pair = f"{rows}\\{columns}"
    panel.transformations(
        [
            _as_numbers(columns),
            _sorted_by(columns),
            DataTransformerConfig(
                id_val="groupingToMatrix", options={"columnField": columns, "rowField": rows, "valueField": "Value"}
            ),
            _as_numbers(pair),
            DataTransformerConfig(
                id_val="renameByRegex", options={"regex": f"^{rows}.{columns}$", "renamePattern": corner}
            ),
        ]
    )
    panel.color_scheme(FieldColor().mode(colours)).min(0).max(1).decimals(0)
    panel.width(width).display_mode(TableCellDisplayMode.COLOR_BACKGROUND_SOLID).align(FieldTextAlignment.CENTER)
    names = {value: (name, "text") for value, name in (called or {}).items()}
    mapped = [("mappings", [_mapped(names)])] if names else []
    panel.with_override(*named(corner, *_cells(PLAIN_TEXT), ("custom.width", 100), ("unit", "none"), *mapped))
    return panel.sort_by([TableSortByFieldState().display_name(corner).desc(False)])


def _as_numbers(name: str) -> DataTransformerConfig:
    """Converts a label to a number, so that 2 sorts before 10."""
    conversion = {"targetField": name, "destinationType": "number"}
    return DataTransformerConfig(id_val="convertFieldType", options={"fields": {}, "conversions": [conversion]})


def _mapped(words: Mapping[str, tuple[str, str]]) -> dict[str, object]:
    options = {value: {"text": text, "color": colour} for value, (text, colour) in words.items()}
    return {"type": "value", "options": options}


def _sorted_by(name: str) -> DataTransformerConfig:
    return DataTransformerConfig(id_val="sortBy", options={"fields": {}, "sort": [{"field": name}]})


VERDICT_COLOURS = {"ok": "green", "warning": "orange", "critical": "red", "down": "red", "unknown": "text"}
"""By the verdict's code."""

VERDICT_CALLED = {"verdict": "Verdict", "title": "What is wrong", "act": "Do"}
"""The display names of the columns."""

BEFORE_WATCH = {"0": ("from the start", "text")}
"""Since when, if that was before the exporter watched the server."""


def verdict_columns() -> dict[str, Column]:
    """The columns of a verdict and its finding. Texts have the width that is left."""
    words = {
        code: (STATUSES[code].word if code in STATUSES else code.upper(), at) for code, at in VERDICT_COLOURS.items()
    }
    return {"verdict": Column(words=words, width=85), "title": Column(wraps=True), "act": Column(wraps=True)}
