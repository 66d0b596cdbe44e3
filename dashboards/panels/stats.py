"""Panels of single figures, to read at a glance."""

from __future__ import annotations

from collections.abc import Sequence

from grafana_foundation_sdk.builders import bargauge, stat
from grafana_foundation_sdk.builders.common import ReduceDataOptions, VizTextDisplayOptions
from grafana_foundation_sdk.builders.dashboard import FieldColor, ThresholdsConfig
from grafana_foundation_sdk.models.common import (
    BarGaugeDisplayMode,
    BigValueColorMode,
    BigValueGraphMode,
    BigValueTextMode,
    VizOrientation,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardSpecialValueMapOptions,
    FieldColorModeId,
    SpecialValueMap,
    SpecialValueMatch,
    ValueMappingResult,
)

from dashboards.panels.colours import Override
from dashboards.panels.panel_options import apply_panel_options
from dashboards.signal import Signal

HEIGHT = 4
_THICKEST = 40
"""Largest height of a bar in pixels: a single bar would fill the panel."""


def figure(
    signal: Signal,
    width: int,
    verdict: ThresholdsConfig,
    *,
    named: bool = False,
    decimals: int | None = None,
    empty: str = "-",
    overrides: Sequence[Override] = (),
    height: int = HEIGHT,
) -> stat.Panel:
    """A number in the colour of its threshold. named: show the name of its series, too; empty: text without a value."""
    panel = apply_panel_options(stat.Panel(), signal, (width, height))
    panel.thresholds(verdict).color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
    panel.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).fields(""))
    panel.color_mode(BigValueColorMode.VALUE)
    panel.text_mode(BigValueTextMode.VALUE_AND_NAME if named else BigValueTextMode.VALUE)
    panel.graph_mode(BigValueGraphMode.NONE)  # a curve would run through the figure; the curve has its own panel
    panel.text(VizTextDisplayOptions().title_size(13).value_size(24 if named else 34))
    if decimals is not None:
        panel.decimals(decimals)
    for matcher, values in overrides:
        panel.with_override(matcher, values)
    return panel.mappings([_nothing(empty)])


def bars(
    signal: Signal,
    size: tuple[int, int],
    verdict: ThresholdsConfig,
    *,
    most: float | None = None,
    decimals: int | None = None,
    called: str = "",
    overrides: Sequence[Override] = (),
) -> bargauge.Panel:
    """A bar for each series, from 0 to `most`. called: the label that names a bar, even if there is only one series."""
    panel = apply_panel_options(bargauge.Panel(), signal, size)
    panel.thresholds(verdict).color_scheme(FieldColor().mode(FieldColorModeId.THRESHOLDS))
    panel.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).fields(""))
    panel.text(VizTextDisplayOptions().title_size(12).value_size(15))
    panel.max_viz_height(_THICKEST).display_mode(BarGaugeDisplayMode.BASIC).orientation(
        VizOrientation.HORIZONTAL
    ).show_unfilled(True).min(0)
    if most is not None:
        panel.max(most)
    if called:
        panel.display_name(f"${{__field.labels.{called}}}")
    if decimals is not None:
        panel.decimals(decimals)
    for matcher, values in overrides:
        panel.with_override(matcher, values)
    return panel.mappings([_nothing("-")])


def _nothing(text: str) -> SpecialValueMap:
    """The text shown if there is no value, in a neutral colour."""
    return SpecialValueMap(DashboardSpecialValueMapOptions(SpecialValueMatch.NULL, ValueMappingResult(text, "text")))
