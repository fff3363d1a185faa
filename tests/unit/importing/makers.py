"""A run of the simulated rig as the programs of known makers write recordings.

The forms are those that the sources of ``labctl/importing/mappings`` document; what is written is
what the simulated drive drew, on clocks that are off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from tests.unit.importing.exported import BEGAN_MS, Clock, Floats

Found = dict[str, Floats]


def _moment(t: float) -> datetime:
    return datetime.fromtimestamp(BEGAN_MS / 1000, UTC) + timedelta(seconds=float(t))


def _together(found: Found) -> tuple[Floats, Floats]:
    """Volts and amps of one rail that draws what both draw."""
    watts = sum(found[f"{rail} volts"] * found[f"{rail} amps"] for rail in ("12V", "3V3"))
    return found["12V volts"], np.asarray(watts / found["12V volts"])


def _rows(columns: Iterable[Iterable[str]], end: str = ",") -> str:
    return "".join(end.join(row) + "\n" for row in zip(*columns, strict=True))


def quarch_qis(t: Floats, found: Found) -> str:
    """Whole µs, mV, µA and µW; the last columns are watts of each rail and of both."""
    names, columns, watts = [], [[f"{round((one - t[0]) * 1e6)}" for one in t]], []
    for rail in ("3V3", "12V"):
        names += [f"{rail} voltage mV", f"{rail} current uA"]
        volts, amps = found[f"{rail} volts"], found[f"{rail} amps"]
        columns.append([f"{round(one * 1e3)}" for one in volts])
        columns.append([f"{round(one * 1e6)}" for one in amps])
        watts.append(volts * amps)
    for name, one in zip(("3V3", "12V", "Tot"), (*watts, sum(watts)), strict=True):
        names.append(f"{name} power uW")
        columns.append([f"{round(each * 1e6)}" for each in np.asarray(one)])
    return ",".join(["Time uS", *names]) + "\n" + _rows(columns)


def quarch_qps(t: Floats, found: Found) -> str:
    """Quoted headings; ns of the module's own clock; behind the readings a channel that a script
    added, and annotations, of which a row has one."""
    names = ["Time nS", "Status"]
    columns = [[f"{round((one - t[0] + 20_000) * 1e9)}" for one in t], ["0"] * len(t)]
    watts = []
    for rail in ("3.3V", "12V"):
        names += [f"{rail} voltage mV", f"{rail} current uA"]
        own = rail.replace("3.3V", "3V3")
        volts, amps = found[f"{own} volts"], found[f"{own} amps"]
        columns += [[f"{round(one)}" for one in each] for each in (volts * 1e3, amps * 1e6)]
        watts.append(volts * amps)
    for name, one in zip(("3.3V", "12V", "Tot"), (*watts, sum(watts)), strict=True):
        names.append(f"{name} power uW")
        columns.append([f"{round(each * 1e6)}" for each in np.asarray(one)])
    names += ["read_iops IOPS IOPS", "Annotation Type", "Annotation Text"]
    notes = [("", "")] * len(t)
    notes[len(t) // 2] = ("annotate", '"QD 4, started"')
    columns += [["1626"] * len(t), *map(list, zip(*notes, strict=True))]
    return ",".join(f'"{name}"' for name in names) + "\n" + _rows(columns)


def quarch_old(t: Floats, found: Found) -> str:
    """Headings of units alone with a comma too many, a line without anything, µs."""
    names, columns, watts = [], [[f"{round((one - t[0]) * 1e6)}" for one in t]], []
    for rail in ("5V", "12V"):
        names += [f"{rail} mV", f"{rail} uA"]
        own = rail.replace("5V", "3V3")
        volts, amps = found[f"{own} volts"], found[f"{own} amps"]
        columns += [[f"{round(one)}" for one in each] for each in (volts * 1e3, amps * 1e6)]
        watts.append(volts * amps)
    for name, one in zip(("5V", "12V", "Tot"), (*watts, sum(watts)), strict=True):
        names.append(f"{name} uW")
        columns.append([f"{round(each * 1e6)}" for each in np.asarray(one)])
    return ",".join(["Time", *names]) + ",\n\n" + _rows(columns)


def powersensor3(t: Floats, found: Found) -> str:
    """Six digits in all, as a C++ stream writes them: at 95 s and more, rows share a time."""
    names = ["marker", "time", "dt_micro", "device_timestamp"]
    elapsed = t - t[0] + 95.0
    steps = np.diff(elapsed, prepend=elapsed[0]) * 1e6
    columns = [
        ["S"] * len(t),
        [f"{one:.6g}" for one in elapsed],
        [f"{int(one)}" for one in steps],
        [f"{int(one * 1e6) % 1024}" for one in elapsed],
    ]
    total = np.zeros(len(t))
    for number, rail in enumerate(("12V", "3V3")):
        amps, volts = found[f"{rail} amps"], found[f"{rail} volts"]
        names += [f"{name}{number}" for name in ("current", "voltage", "power")]
        columns += [[f"{one:.6g}" for one in each] for each in (amps, volts, amps * volts)]
        total += amps * volts
    columns.append([f"{one:.6g}" for one in total])
    return " ".join([*names, "power_total"]) + "\n" + _rows(columns, " ")


def _sigrok(t: Floats, found: Found, headings: str, times: list[str] | None) -> str:
    rate = 1 / float(np.median(np.diff(t)))
    columns = [[f"{one:g}" for one in each] for each in _together(found)]
    return (
        "; CSV generated by libsigrok 0.5.2\n"
        f"; from A meter on {_moment(t[0]):%a %b %d %H:%M:%S %Y}\n"
        f"; Channels (2/2): V1, I1\n; Samplerate: {rate:g} Hz\n{headings}\n"
        + _rows([times, *columns] if times else columns)
    )


def _sigrok_ms(t: Floats) -> list[str]:
    step = float(np.median(np.diff(t)))
    return [f"{int(number * step * 1e3 + 1e-6)}" for number in range(len(t))]


def sigrok_with_times(t: Floats, found: Found) -> str:
    """``-O csv:time=true``: the heading of the time is its unit, those of channels theirs."""
    return _sigrok(t, found, "milliseconds,V DC,A DC", _sigrok_ms(t))


def sigrok_with_names(t: Floats, found: Found) -> str:
    """``-O csv:time=true:label=channel``: no heading has a unit."""
    return _sigrok(t, found, "Time,V1,I1", _sigrok_ms(t))


def sigrok_without_times(t: Floats, found: Found) -> str:
    """``-O csv``: no times at all, but the rate."""
    return _sigrok(t, found, "V DC,A DC", None)


def keysight_daq(t: Floats, found: Found) -> str:
    """Month first, milliseconds behind a colon."""
    moments = [_moment(one) for one in t]
    stamps = [f"{one:%m/%d/%Y %H:%M:%S}:{one.microsecond // 1000:03}" for one in moments]
    columns = [[f"{one:.8f}" for one in each] for each in _together(found)]
    numbers = [f"{one}" for one in range(1, len(t) + 1)]
    head = "Sweep #,Time,Chan 201 (VDC),Chan 221 (ADC)\n"
    return head + _rows([numbers, stamps, *columns])


def benchvue_daq(t: Floats, found: Found) -> str:
    """Some lines about the scan, then the channels with what a person called them."""
    columns = [[f"{one:.9E}" for one in each] for each in _together(found)]
    head = (
        "Instrument,DAQ970A\nScan started,by hand\n\n"
        "Scan Sweep Time (Sec),Scan Number,116 (Vdc)- slot 12V,122 (Adc)- slot 12V\n"
    )
    seconds = [f"{one - t[0]:.3f}" for one in t]
    numbers = [f"{one}" for one in range(1, len(t) + 1)]
    return head + _rows([seconds, numbers, *columns])


def rigol_scope(t: Floats, found: Found) -> str:
    """Numbered points; a current probe of 1 V/A on the second channel."""
    step = float(np.median(np.diff(t)))
    columns = [[f"{one:.4e}" for one in each] for each in _together(found)]
    numbers = [f"{one}" for one in range(len(t))]
    head = f"X,CH1,CH2,Start,Increment,\nSequence,Volt,Volt,-1.200000e-03,{step:.6e}\n"
    return head + _rows([numbers, *columns, [""] * len(t)])


def joulescope_relative(t: Floats, found: Found) -> str:
    """The Joulescope UI: seconds since the start, and what was used up."""
    volts, amps = _together(found)
    columns = [[f"{one:g}" for one in each] for each in (amps, volts, amps * volts)]
    used = [[f"{one:g}" for one in np.cumsum(each) * 1e-2] for each in (amps, amps * volts)]
    seconds = [f"{one - t[0]:.2f}" for one in t]
    return "#time,current,voltage,power,charge,energy\n" + _rows([seconds, *columns, *used])


def joulescope_utc(t: Floats, found: Found) -> str:
    """downsample_logging: UTC without separators, and the least and most amps of each row."""
    volts, amps = _together(found)
    columns = [[f"{one:g}" for one in each] for each in (amps, volts, amps * volts)]
    used = [[f"{one:g}" for one in np.cumsum(each) * 1e-2] for each in (amps, amps * volts)]
    ends = [[f"{one:g}" for one in amps * factor] for factor in (0.7, 1.6)]
    stamps = [f"{_moment(one):%Y%m%dT%H%M%S.%f}Z" for one in t]
    head = "time,current,voltage,power,charge,energy,current_min,current_max\n"
    return head + _rows([stamps, *columns, *used, *ends])


Writer = Callable[[Floats, Found], str]
MAKERS: dict[str, tuple[str, Writer, float]] = {
    "Quarch QIS": ("quarch-qis", quarch_qis, 1000.0),
    "Quarch QPS": ("quarch-qps", quarch_qps, 250.0),
    "Quarch, old headings": ("quarch-old", quarch_old, 1000.0),
    "PowerSensor3": ("powersensor3", powersensor3, 2000.0),
    "sigrok with times": ("sigrok-csv", sigrok_with_times, 20.0),
    "sigrok with names": ("sigrok-csv", sigrok_with_names, 20.0),
    "sigrok without times": ("sigrok-csv", sigrok_without_times, 20.0),
    "Keysight 34972A": ("keysight-daq", keysight_daq, 10.0),
    "BenchVue": ("benchvue-daq", benchvue_daq, 10.0),
    "Rigol scope": ("rigol-scope", rigol_scope, 500.0),
    "Joulescope UI": ("joulescope-statistics", joulescope_relative, 20.0),
    "Joulescope, UTC": ("joulescope-statistics", joulescope_utc, 20.0),
}
"""By program: the ready mapping, what writes the file, and readings a second."""


def write_as(maker: str, readings: tuple[Floats, Found], file: Path, clock: Clock) -> Path:
    """Readings of a bench in the form of a maker, on a clock that is off."""
    _, write, _ = MAKERS[maker]
    t, found = readings
    file.write_text(write(clock.shown(t + BEGAN_MS / 1000), found))
    return file
