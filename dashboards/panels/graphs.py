"""Graphs over time."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import barchart, heatmap, statetimeline, timeseries
from grafana_foundation_sdk.builders.common import (
    GraphThresholdsStyleConfig,
    ScaleDistributionConfig,
    StackingConfig,
    VizLegendOptions,
    VizTooltipOptions,
)
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.builders.heatmap import HeatmapColorOptions, YAxisConfig
from grafana_foundation_sdk.models.common import (
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    ScaleDistribution,
    SortOrder,
    StackingMode,
    TooltipDisplayMode,
    VisibilityMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DataTransformerConfig,
    DynamicConfigValue,
    FieldColorModeId,
    MatcherConfig,
    Panel,
    ValueMap,
    ValueMappingResult,
)
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat
from grafana_foundation_sdk.models.statetimeline import Options

from dashboards.panels.colours import BLUE, CPUS, GREY, Override, named, workers
from dashboards.panels.panel_options import EMPTY, apply_panel_options, say_why_empty
from dashboards.signal import Signal

HEIGHT = 9
_CPUS = 64
"""Number of CPUs that have a colour; CPUs above it are grey."""


def lines(  # noqa: PLR0913  (each is one choice of how to draw)
    signal: Signal,
    width: int,
    *,
    overrides: Sequence[Override] = (),
    most: float | None = None,
    at_least: float | None = None,
    threshold: ThresholdsConfig | None = None,
    stacked: bool = False,
    logarithmic: bool = False,
    from_zero: bool = True,
    beside: bool = False,
    step: str = "",
    height: int = HEIGHT,
) -> timeseries.Panel:
    """A graph of lines, from 0 or from their least value. most: the top of the axis; at_least: its least top, even if
    values are lower; threshold: drawn as a line; beside: for many series, the legend is a sorted table on the right.
    """
    panel = say_why_empty(apply_panel_options(timeseries.Panel(), signal, (width, height), step=step), signal)
    panel.line_width(1).fill_opacity(70 if stacked else 0 if beside else 8).show_points(VisibilityMode.NEVER).legend(
        _legend(beside)
    )
    panel.color_scheme(FieldColor().mode(FieldColorModeId.PALETTE_CLASSIC))
    panel.tooltip(VizTooltipOptions().mode(TooltipDisplayMode.MULTI).sort(SortOrder.DESCENDING))
    if logarithmic:
        panel.scale_distribution(ScaleDistributionConfig().type(ScaleDistribution.LOG).log(2)).fill_opacity(0)
    elif from_zero:
        panel.min(0)
    if stacked:
        panel.stacking(StackingConfig().mode(StackingMode.NORMAL).group("A")).line_width(0)
    if most is not None:
        panel.max(most)
    if at_least is not None:
        panel.axis_soft_max(at_least)
    if threshold is not None:
        panel.description(_with_lines(signal, threshold)).thresholds(threshold).thresholds_style(
            GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.LINE)
        )
    for matcher, values in overrides:
        panel.with_override(matcher, values)
    return panel


def _with_lines(signal: Signal, threshold: ThresholdsConfig) -> str:
    """The description, with what Grafana shows nowhere: the values of the lines that a graph's thresholds draw."""
    values = [f"{step.color} at {_in_unit(step.value, signal.unit)}" for step in threshold.build().steps[1:]]
    meaning, empty, reason = signal.description.partition(EMPTY)
    return f"{meaning.rstrip()} Lines across the graph: {', '.join(values)}. {empty}{reason}".rstrip()


def _in_unit(value: float | None, unit: str) -> str:
    value = value or 0.0
    return f"{100 * value:.0f} %" if unit == "percentunit" else f"{value:.3g}{unit.removeprefix('suffix:')}"


def _legend(beside: bool) -> VizLegendOptions:
    legend = VizLegendOptions().show_legend(True)
    if not beside:
        return legend.display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    legend.display_mode(LegendDisplayMode.TABLE).placement(LegendPlacement.RIGHT).calcs(["lastNotNull", "max"])
    return legend.sort_by("Last *").sort_desc(True)


def by_worker(
    signal: Signal,
    width: int,
    *,
    most: float | None = None,
    at_least: float | None = None,
    threshold: ThresholdsConfig | None = None,
    stacked: bool = False,
    step: str = "",
) -> timeseries.Panel:
    """A graph with a line for each worker, in its colour; other arguments as in `lines`."""
    return lines(
        signal,
        width,
        overrides=workers(),
        most=most,
        at_least=at_least,
        threshold=threshold,
        stacked=stacked,
        step=step,
        beside=True,
    )


def matching(names: str, *values: tuple[str, object]) -> Override:
    """Settings for every series whose name matches the regular expression."""
    return MatcherConfig("byRegexp", names), [DynamicConfigValue(key, value) for key, value in values]


def dashed(name: str, colour: str) -> Override:
    """Draws a series as a dashed line, for a limit rather than a figure."""
    return plain(name, colour, ("custom.lineStyle", {"fill": "dash", "dash": [8, 6]}))


def plain(name: str, colour: str, *values: tuple[str, object]) -> Override:
    """Draws a series as a line without an area, outside of any stack."""
    return named(
        name,
        *values,
        ("custom.lineWidth", 2),
        ("custom.stacking", {"mode": "none", "group": name}),
        ("custom.fillOpacity", 0),
        ("color", {"mode": "fixed", "fixedColor": colour}),
    )


def heat_map(signal: Signal, width: int) -> heatmap.Panel:
    """A heat map of a histogram's buckets."""
    panel = apply_panel_options(heatmap.Panel(), signal, (width, HEIGHT), PromQueryFormat.HEATMAP)
    say_why_empty(panel, signal)
    panel.calculate(False).y_axis(YAxisConfig().unit(signal.unit)).show_value(VisibilityMode.NEVER)
    panel.color(HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues").steps(32))
    return panel.cell_gap(0).show_legend()


def shares(signal: Signal, width: int) -> barchart.Panel:
    """A bar chart with one bar per worker, and a line at the value of the second query."""
    panel = apply_panel_options(barchart.Panel(), signal, (width, HEIGHT), PromQueryFormat.TABLE)
    panel.orientation(VizOrientation.VERTICAL).show_value(VisibilityMode.AUTO).min(0).bar_width(0.8)
    panel.x_tick_label_max_length(100)
    panel.legend(VizLegendOptions().show_legend(False).display_mode(LegendDisplayMode.HIDDEN))
    panel.color_scheme(FieldColor().mode(FieldColorModeId.FIXED).fixed_color(BLUE)).fill_opacity(70)
    panel.thresholds_style(GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.LINE))
    panel.with_override(*named("worker", ("unit", "none")))
    panel.with_transformation(
        DataTransformerConfig(
            id_val="configFromData",
            options={
                "configRefId": "B",
                "mappings": [{"fieldName": "Value #B", "handlerKey": "threshold1", "reducerId": "lastNotNull"}],
            },
        )
    )
    panel.with_transformation(
        DataTransformerConfig(
            id_val="organize",
            options={
                "excludeByName": {"Time": True},
                "indexByName": {"worker_id": 0, "Value #A": 1},
                "renameByName": {"worker_id": "worker", "Value #A": "share"},
            },
        )
    )
    return panel


class _OnOnePage(statetimeline.Panel):
    """Removes Grafana's pager, which appears even if one page is enough. The library does not accept 0 for that."""

    def build(self) -> Panel:
        panel = super().build()
        assert isinstance(panel.options, Options)
        panel.options.per_page = 0
        return panel


def last_cpus(signal: Signal, width: int) -> statetimeline.Panel:
    """The CPU of each worker over time, in that CPU's colour."""
    panel = say_why_empty(apply_panel_options(_OnOnePage(), signal, (width, HEIGHT)), signal)
    panel.color_scheme(FieldColor().mode(FieldColorModeId.FIXED).fixed_color(GREY)).merge_values(True)
    named_cpus = {str(cpu): ValueMappingResult(str(cpu), CPUS[cpu % len(CPUS)], index=cpu) for cpu in range(_CPUS)}
    panel.mappings([ValueMap(named_cpus)])
    panel.legend(VizLegendOptions().show_legend(False).display_mode(LegendDisplayMode.HIDDEN))
    return panel.show_value(VisibilityMode.AUTO).row_height(0.85).line_width(0).fill_opacity(80)
