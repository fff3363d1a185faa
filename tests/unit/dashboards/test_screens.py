"""What a person reads from the screens: which rig, which drive, how many watts, whether it
throttles."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dashboards import JSON_DIR, PROVISIONING_DIR
from dashboards.palette import BAD_COLOR, GREY, HUES, RAIL_COLORS, RAMP, RED, WARNING_COLOR
from labctl.report.charts import theme

OVERVIEW, LIVE = "labctl-overview", "labctl-rig-live"
POWER, COMPARE = "labctl-power-per-qd", "labctl-compare"
UIDS = (OVERVIEW, LIVE, POWER, COMPARE)

Panel = dict[str, Any]

ROW_PX, SCREEN_PX = 38, 1080
BARS_PX = 116
"""Grafana's own bar and that of the variables; on a wall (kiosk) there is neither."""


def page(uid: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((JSON_DIR / f"{uid}.json").read_text("utf-8"))
    return data


def panels(uid: str) -> list[Panel]:
    return [panel for panel in page(uid)["panels"] if panel["type"] != "row"]


def titled(uid: str, title: str, kind: str = "") -> Panel:
    (found,) = (
        panel for panel in panels(uid) if panel["title"] == title and kind in ("", panel["type"])
    )
    return found


def variable(uid: str, name: str) -> dict[str, Any]:
    (found,) = (item for item in page(uid)["templating"]["list"] if item["name"] == name)
    return dict(found)


def queries(panel: Panel) -> list[str]:
    return [target["query"] for target in panel["targets"]]


def bottom(panel: Panel) -> int:
    return int(panel["gridPos"]["y"] + panel["gridPos"]["h"])


def mapped(panel: Panel, value: str | None) -> tuple[str, str] | None:
    """Text and colour of a value by the panel's mappings, all of its fields' together."""
    groups = [panel["fieldConfig"]["defaults"].get("mappings") or []]
    for override in panel["fieldConfig"]["overrides"]:
        groups += [item["value"] for item in override["properties"] if item["id"] == "mappings"]
    for mapping in (item for group in groups for item in group):
        options = mapping["options"]
        if mapping["type"] == "value" and value in options:
            return options[value]["text"], options[value]["color"]
        if mapping["type"] == "regex" and re.search(options["pattern"].strip("/"), value or ""):
            text = re.sub(
                options["pattern"].strip("/"),
                options["result"]["text"].replace("$1", r"\1"),
                value or "",
            )
            return text, options["result"].get("color", "")
    return None


def colors(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("color", "fixedColor", "iconColor") and isinstance(item, str):
                yield item
            yield from colors(item)
    elif isinstance(value, list):
        for item in value:
            yield from colors(item)


# Which rig?


def test_a_page_of_a_rig_stays_with_it_when_it_is_silent() -> None:
    """A list of rigs with recent watts lost it, and Grafana showed the first rig in its place."""
    rig = variable(LIVE, "rig")
    assert rig["refresh"] == 1, "on load alone"
    assert "$timeFilter" not in rig["query"] and '"rig"' in rig["query"]
    assert [item["name"] for item in page(LIVE)["templating"]["list"]] == ["datasource", "rig"]


@pytest.mark.parametrize(
    ("uid", "names"),
    [(LIVE, ("Rig $rig", "State", "Drive", "Run")), (POWER, ("Rig", "Drive", "Run"))],
)
def test_the_names_of_rig_drive_and_run_stand_first(uid: str, names: tuple[str, ...]) -> None:
    shown = panels(uid)[: len(names)]
    assert [panel["title"] for panel in shown] == list(names)
    assert {panel["gridPos"]["y"] for panel in shown} == {0}


def test_no_rigs_alert_marks_stand_on_another_rig() -> None:
    """Grafana draws an alert on the panel that its rule names, whatever rig that shows."""
    text = (PROVISIONING_DIR / "alerting" / "labctl.yaml").read_text("utf-8")
    by_id = {str(panel["id"]): panel["title"] for panel in panels(OVERVIEW)}
    for rule in yaml.safe_load(text)["groups"][0]["rules"]:
        assert rule["annotations"]["__dashboardUid__"] == OVERVIEW
        assert by_id[rule["annotations"]["__panelId__"]] == "Warnings and errors"


def test_an_alert_without_data_says_no_rig() -> None:
    """Where it was "[no value]"."""
    text = (PROVISIONING_DIR / "alerting" / "labctl.yaml").read_text("utf-8")
    for rule in yaml.safe_load(text)["groups"][0]["rules"]:
        summary = rule["annotations"]["summary"]
        assert summary.startswith("{{ with .Labels.rig }}{{ . }}{{ else }}no rig{{ end }}: ")
        assert not re.search(r"{{ \.Labels", summary)


# Is it throttling?


@pytest.mark.parametrize("uid", [POWER, LIVE, COMPARE])
def test_doubt_about_throttling_never_looks_good(uid: str) -> None:
    others = ("Total watts ± U", "Queue depth")
    shown = [panel for panel in panels(uid) if panel["title"] not in others]
    doubtful = [found for panel in shown if (found := mapped(panel, "cannot be excluded"))]
    assert {color for _, color in doubtful} == {WARNING_COLOR}
    throttled = [found for panel in shown if (found := mapped(panel, "throttled"))]
    assert {color for _, color in throttled} == {BAD_COLOR}


def test_the_verdict_on_the_last_phase_is_that_of_all_drives() -> None:
    assert NO_PARTS in queries(titled(LIVE, "Throttling", "stat"))[0]


NO_PARTS = '"part" !~ / /'


def test_the_headline_counts_the_phases_in_doubt() -> None:
    headline = titled(POWER, "Throttling", "stat")
    assert [target["alias"] for target in headline["targets"]] == [
        "throttled",
        "phases in doubt",
        "phases without",
    ]
    assert "throttled_s" in headline["targets"][0]["query"]


@pytest.mark.parametrize("uid", [OVERVIEW, LIVE, POWER])
def test_since_when_and_in_which_phase_is_not_cut_off(uid: str) -> None:
    width = widths(titled(uid, "Throttling", "table"))
    for column, text in (("since", "2026-01-01 00:00:00"), ("phase", "randrw 128k QD32 80% read")):
        assert width[column] >= 8 * len(text)


def widths(panel: Panel) -> dict[str, int]:
    """The fixed widths of a table's columns, by the name in the override."""
    return {
        override["matcher"]["options"]: item["value"]
        for override in panel["fieldConfig"]["overrides"]
        for item in override["properties"]
        if item["id"] == "custom.width"
    }


def test_a_verdict_has_room_for_its_words() -> None:
    for uid, title in ((POWER, "Every phase"), (COMPARE, "Numbers")):
        assert widths(titled(uid, title))["throttling"] >= 8 * len("cannot be excluded")


@pytest.mark.parametrize("uid", [OVERVIEW, LIVE, POWER])
def test_throttling_has_a_list_of_its_own(uid: str) -> None:
    """Since when, in which phase, why, how long, what was seen; the phases in doubt among them."""
    found = titled(uid, "Throttling", "table")
    stretches, doubtful = queries(found)
    for column in ("phase", "title", "duration_s", "text"):
        assert f'"{column}"' in stretches
    assert "cannot be excluded" in doubtful and NO_PARTS in doubtful
    assert mapped(found, "throttled: hot") == ("hot", BAD_COLOR)
    assert mapped(found, "cannot be excluded") == ("doubtful", WARNING_COLOR)


# How many watts?


def test_the_total_with_its_uncertainty_stands_over_each_bar() -> None:
    tiles, stacked = titled(POWER, "Total watts ± U"), titled(POWER, "Watts of each rail")
    places = [panel["gridPos"] for panel in (tiles, stacked)]
    assert len({(place["x"], place["w"]) for place in places}) == 1, "one above the other"
    assert places[0]["y"] + places[0]["h"] == places[1]["y"]
    assert tiles["options"]["reduceOptions"]["values"] is True
    assert tiles["options"]["reduceOptions"]["limit"] >= 64, "Grafana's own limit is 25"
    for panel in (tiles, stacked):
        assert '"qd", "bar_label"' in queries(panel)[0], "the same phases in the same order"
    assert stacked["options"]["stacking"] == "normal"
    assert stacked["options"]["showValue"] == "never", "a rail's would stand in the rail above it"


def test_what_throttled_is_marked_over_its_bar() -> None:
    tiles = titled(POWER, "Total watts ± U")
    assert mapped(tiles, "▼ 8.10 ± 0.30 W") == ("▼ 8.10 ± 0.30 W", BAD_COLOR)
    assert mapped(tiles, "? 8.10 ± 0.30 W") == ("? 8.10 ± 0.30 W", WARNING_COLOR)
    assert mapped(tiles, "8.10 ± 0.30 W") == ("8.10 ± 0.30 W", GREY)
    assert mapped(tiles, "no total") == ("no total", GREY)


def test_a_phase_without_a_rail_is_no_smaller_drive() -> None:
    """It keeps its place, and has no bar."""
    all_phases, with_total = queries(titled(POWER, "Watts of each rail"))
    assert "watts" not in all_phases
    assert with_total.endswith('"watts" > 0')


@pytest.mark.parametrize("uid", UIDS)
def test_watts_are_watts_everywhere(uid: str) -> None:
    """Grafana's own unit makes 354 mW of a small one, beside W on the same axis."""
    text = (JSON_DIR / f"{uid}.json").read_text("utf-8")
    assert '"watt"' not in text
    of_watts = [
        panel
        for panel in panels(uid)
        if panel["type"] in ("timeseries", "barchart", "xychart")
        and re.search(r"Power|Watts|watts$", panel["title"])
    ]
    assert {panel["fieldConfig"]["defaults"]["unit"] for panel in of_watts} == {"suffix: W"}


def test_an_axis_of_watts_has_no_digits_that_say_nothing() -> None:
    """8 W, and not 8.000 W."""
    for uid in UIDS:
        for panel in panels(uid):
            shown = panel["fieldConfig"]["defaults"]
            if panel["type"] in ("timeseries", "barchart", "xychart"):
                assert shown["unit"] != "suffix: W" or "decimals" not in shown


LEAST_PX, TABLE_PX = 106, 1880


@pytest.mark.parametrize(
    ("uid", "title", "columns"),
    [(POWER, "Every phase", 12), (POWER, "More of every phase", 9 + 4), (COMPARE, "Numbers", 12)],
)
def test_a_wide_table_fits_the_screen(uid: str, title: str, columns: int) -> None:
    """With two rails, where there are columns for each."""
    fixed = widths(titled(uid, title))
    assert sum(fixed.values()) + (columns - len(fixed)) * LEAST_PX <= TABLE_PX


def test_stacked_watts_begin_at_nothing() -> None:
    for uid in (LIVE, OVERVIEW):
        custom = titled(uid, "Power")["fieldConfig"]["defaults"]["custom"]
        assert custom["axisSoftMin"] == 0


def test_mixed_work_has_its_percentiles() -> None:
    """Over both directions there is none."""
    (query,) = queries(titled(POWER, "Latency per queue depth"))
    assert '"latency_read_p99_us", "latency_write_p99_us"' in query


def test_two_runs_can_be_laid_over_each_other() -> None:
    for title in ("Watts of two runs", "IOPS per watt of two runs"):
        this, other = queries(titled(POWER, title))
        assert "${run:regex}" in this and "${over:regex}" in other


# Lab overview


def tile() -> Panel:
    (found,) = (panel for panel in panels(OVERVIEW) if panel.get("repeat") == "rig")
    return found


def test_every_rig_has_a_tile_and_forty_fit_the_screen() -> None:
    found = tile()
    lines = -(-40 // found["maxPerRow"])
    assert found["gridPos"]["y"] + lines * found["gridPos"]["h"] <= (SCREEN_PX - 16) // ROW_PX
    shown = " ".join(queries(found))
    for line in ("${rig:raw}", "now", "phase", "drive", "plan", "throttled", "last run"):
        assert f'"{line}"' in shown
    names = [item["id"] for one in found["fieldConfig"]["overrides"] for item in one["properties"]]
    assert "displayName" not in names, "Grafana looks for the fields of a tile by that name"


def test_a_silent_rig_is_red_whatever_it_last_said() -> None:
    state, load, *_ = queries(tile())
    assert "now() - 15s" in state and "now() - 15s" in load
    assert '"end_ms" > ${__to} - 3600000' in queries(tile())[3], "red is for what is so now"
    assert mapped(tile(), "1") == ("SILENT", RED)
    assert mapped(tile(), "3") == ("running", HUES[2])
    assert mapped(tile(), "4") == ("idle", GREY), "a record of an idle rig is no run"
    assert 'last("state")' not in state
    over_time = titled(OVERVIEW, "State")
    assert "fill(null)" in queries(over_time)[0], "no bar goes on to this day"
    assert over_time["interval"] == "2m", "longer than from heartbeat to heartbeat"
    on_its_page = titled(LIVE, "State")
    assert "now() - 15s" in queries(on_its_page)[0]
    assert mapped(on_its_page, "1") == ("SILENT", RED)
    for query in (state, *queries(on_its_page)):
        assert "$timeFilter" not in query, "nor does a rig that is silent for long vanish"


def test_warnings_are_not_full_of_single_readings() -> None:
    (query,) = queries(titled(OVERVIEW, "Warnings and errors"))
    assert '"kind" !~ /^(status|throttle)/' in query


# Rig live


def test_rig_live_fits_the_screen() -> None:
    assert max(map(bottom, panels(LIVE))) * ROW_PX <= SCREEN_PX - BARS_PX


def test_phases_are_told_apart_on_a_narrow_bar() -> None:
    found = titled(LIVE, "Phases")
    names = [f"QD{depth}" for depth in (1, 2, 4, 8, 16, 32, 64, 128, 256, 3)]
    shown = [mapped(found, f"phase 2/9 randread 4k {name} round 2") for name in names]
    assert [text for text, _ in filter(None, shown)] == names
    assert len({color for _, color in filter(None, shown)}) == len(names)
    assert mapped(found, "phase 1/9 idle before") == ("idle before", GREY)


def test_heat_is_below_or_over_the_limit_and_never_a_minus() -> None:
    over, below = titled(LIVE, "Heat")["targets"]
    assert (over["alias"], below["alias"]) == ("over WCTEMP", "below WCTEMP")
    assert over["query"].endswith('"over" > 0') and below["query"].endswith('"over" <= 0')


# Compare


def test_a_run_has_one_colour_in_every_chart() -> None:
    charts = [panel for panel in panels(COMPARE) if panel["type"] == "barchart"]
    assert len(charts) == 4
    for chart in charts:
        found = {}
        for override in chart["fieldConfig"]["overrides"]:
            values = {item["id"]: item["value"] for item in override["properties"]}
            if "displayName" in values:
                slot = override["matcher"]["options"]
                found[slot] = color_of(chart, slot)
                assert values["displayName"] == f"${{{slot}}}", "the run, by its name"
        assert found == {f"r{number}": color for number, color in enumerate(HUES, start=1)}


def test_the_newest_runs_are_compared_until_some_are_chosen() -> None:
    assert "ORDER BY time DESC LIMIT 6" in variable(COMPARE, "newest")["query"]
    (pattern,) = re.findall(r'"run" =~ /(.*?)/ ', variable(COMPARE, "r1")["query"])

    def compared(run: str) -> list[str]:
        chosen = pattern.replace("${run:regex}", run).replace("${newest:regex}", "(a|b)")
        return [name for name in ("a", "b", "c") if re.search(chosen, name)]

    assert compared(variable(COMPARE, "run")["allValue"]) == ["a", "b"]
    assert compared("(b|c)") == ["b", "c"], "beside a run that was chosen is none"


@pytest.mark.parametrize(
    ("title", "columns", "name_px"),
    [
        ("Runs", 5, 8 * len("20260101T000000Z_bench-1_plan")),
        ("Difference against the first run, %", 11, 0),
    ],
)
def test_a_table_of_runs_and_that_of_differences_fit_their_places(
    title: str, columns: int, name_px: int
) -> None:
    """``name_px``: what the one column takes that has no width of its own."""
    panel = titled(COMPARE, title)
    fixed = widths(panel)
    (*_, least_px) = (
        item["value"]
        for override in panel["fieldConfig"]["overrides"]
        for item in override["properties"]
        if override["matcher"]["options"] == "/.*/" and item["id"] == "custom.minWidth"
    )
    others_px = name_px or (columns - len(fixed)) * least_px
    assert len(fixed) == (columns - 1 if name_px else 0)
    assert sum(fixed.values()) + others_px <= panel["gridPos"]["w"] * 80 - 30


# Colours


def test_reports_and_dashboards_have_one_palette() -> None:
    assert theme.HUES[: len(HUES)] == HUES
    assert (theme.RED, theme.SOFT) == (RED, GREY)
    usual = ("12V", "3V3", "5V")
    assert [RAIL_COLORS[rail] for rail in usual] == theme.hues(usual), "in a report by their order"


@pytest.mark.parametrize("uid", UIDS)
def test_nothing_has_a_colour_that_is_not_in_the_palette(uid: str) -> None:
    data = page(uid)
    used = {*colors(data["panels"]), *colors(data["annotations"])}
    assert used <= {*HUES, *RAMP, RED, GREY, "text", "transparent"}


def test_a_series_has_a_colour_of_its_name_and_never_red() -> None:
    """Grafana's own go by place: the fifth rig was red, which is for what failed."""
    rigs, rails, heat = (
        titled(OVERVIEW, "Power"),
        titled(LIVE, "Power"),
        titled(LIVE, "Temperature"),
    )
    six = {color_of(rigs, f"bench-{number}") for number in range(1, 7)}
    assert six == {*HUES}
    assert {color_of(rails, f"VIN{number}") for number in range(6)} == {*HUES}
    assert [color_of(rails, rail) for rail in RAIL_COLORS] == [*RAIL_COLORS.values()]
    assert color_of(heat, "composite") != color_of(heat, "sensor1") != color_of(heat, "sensor2")
    assert (color_of(heat, "CCTEMP"), color_of(rigs, "bench-é")) == (RED, GREY)


def color_of(panel: Panel, name: str) -> str:
    """The colour of a series: that of the last override which means its name."""
    found = panel["fieldConfig"]["defaults"]["color"]["fixedColor"]
    for override in panel["fieldConfig"]["overrides"]:
        kind, means = override["matcher"]["id"], override["matcher"]["options"]
        if kind == "byRegexp":
            pattern, _, flags = means.removeprefix("/").rpartition("/")
            fits = re.search(pattern, name, re.IGNORECASE if flags == "i" else 0)
        else:
            fits = name == means
        for item in override["properties"]:
            if fits and item["id"] == "color":
                found = item["value"]["fixedColor"]
    return str(found)


def test_a_page_renews_itself_while_a_run_is_on() -> None:
    assert {uid: page(uid)["refresh"] for uid in (OVERVIEW, LIVE, POWER)} == {
        OVERVIEW: "10s",
        LIVE: "10s",
        POWER: "1m",
    }
