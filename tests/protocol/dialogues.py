"""What is said to a SCPI meter and what it answers, as manuals and independent projects have it.

Written down once, by family, and played against both sides: a driver may say nothing that is not
here and must read these answers; a simulated meter must take every line without an error and answer
in the same form. So neither can agree with the other about a wrong fact. Spellings are those of the
source: SCPI's long and short forms, optional nodes and white space are the same message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

Line = tuple[str, str | None]


@dataclass(frozen=True)
class Dialogue:
    """``lines`` in an order in which a meter takes them; ``reads`` is what the driver makes of the
    answer to the last question."""

    source: str
    driver: str
    kind: str
    settings: dict[str, Any]
    lines: tuple[Line, ...]
    reads: list[float]
    sent_only_by_us: frozenset[str] = field(default_factory=frozenset)
    """Canonical headers without a source of their own: to be confirmed on a meter."""


_COMMON: tuple[Line, ...] = (("*RST", None), ("*CLS", None), ("*OPC?", "1"))
"""IEEE 488.2."""
_NO_ERROR: Line = ("SYSTem:ERRor?", '+0,"No error"')
"""SCPI-99 volume 2, 21.8; a DMM6500 adds more behind its message."""

DIALOGUES: dict[str, Dialogue] = {
    "34465A": Dialogue(
        source="QCoDeS 0.58, its simulated Keysight_34465A.yaml and driver Keysight_344xxA; the "
        "maker's Command Quick Reference for CONF, DATA:POINts?, R?, STATus, ABORt, INITiate",
        driver="truevolt",
        kind="truevolt",
        settings={
            "model": "34465A",
            "function": "voltage",
            "range": 1.0,
            "nplc": 10.0,
            "interval_s": 1.0,
        },
        lines=(
            ("ABORt", None),
            *_COMMON,
            ("*IDN?", "Keysight, 34465A, 1000, A.02.16-02.40-02.16-00.51-03-01"),
            ("CONFigure:VOLTage:DC 1", None),
            ("SENSe:FUNCtion?", '"VOLT"'),
            ("SENSe:VOLTage:DC:RANGe?", "1"),
            ("SENSe:VOLT:NPLC 10.0", None),
            ("SENSe:VOLT:NPLC?", "10.0"),
            ("SENSe:VOLT:ZERO:AUTO ONCE", None),
            ("TRIGger:SOURce IMM", None),
            ("TRIGger:DELay 0", None),
            ("SAMPle:SOURce TIM", None),
            ("SAMPle:TIMer? MIN", "0.1"),
            ("SAMPle:TIMer 1.0", None),
            ("SAMPle:TIMer?", "1.0"),
            ("SAMPle:COUNt 1000000000", None),
            ("TRIGger:COUNt 1", None),
            _NO_ERROR,
            ("INITiate:IMMediate", None),
            ("DATA:POINts?;:STATus:QUEStionable:CONDition?", "+1;+0"),
            ("R? 1", "#215+1.00000000E+01"),
            ("ABORt", None),
            ("SYSTem:LOCal", None),
        ),
        reads=[10.0],
    ),
    "34401A": Dialogue(
        source="pymeasure 0.16, tests/instruments/hp/test_hp34401a.py; 34401A User's Guide for "
        "CONFigure and TRIGger:SOURce",
        driver="scpi_dmm",
        kind="34401a",
        settings={
            "model": "34401A",
            "function": "voltage",
            "range": 1.0,
            "nplc": 1.0,
            "interval_s": 0.1,
        },
        lines=(
            *_COMMON,
            ("*IDN?", "HEWLETT-PACKARD,34401A,0,10-5-2"),
            ("CONFigure:VOLTage:DC 1", None),
            ("FUNC?", '"VOLT"'),
            ("VOLT:RANG 1", None),
            ("VOLT:RANG?", "1"),
            ("VOLT:NPLC 1", None),
            ("VOLT:NPLC?", "1"),
            ("VOLT:RANG:AUTO 0", None),
            ("ZERO:AUTO ONCE", None),
            ("TRIGger:SOURce IMMediate", None),
            _NO_ERROR,
            ("READ?", "+1.20340000E-01"),
        ),
        reads=[0.12034],
    ),
    "2000": Dialogue(
        source="pymeasure 0.16, tests/instruments/keithley/test_keithley2000.py and its driver; "
        "Model 2000 User's Manual for FORMat, AVERage, AZERo, INITiate:CONTinuous",
        driver="scpi_dmm",
        kind="keithley2000",
        settings={
            "model": "2000",
            "function": "voltage",
            "range": 10.0,
            "nplc": 1.0,
            "interval_s": 0.1,
            "accuracy_pct_of_reading": 0.01,
            "accuracy_floor": 1e-3,
        },
        lines=(
            *_COMMON,
            ("*IDN?", "KEITHLEY INSTRUMENTS INC.,MODEL 2000,1308393,A20  /A02"),
            (":FORM:ELEM READ", None),
            (":SENS:FUNC 'VOLT:DC'", None),
            (":SENS:VOLT:RANG:AUTO 0;:SENS:VOLT:RANG 10", None),
            (":SENS:VOLT:RANG?", "10"),
            (":SENS:VOLT:NPLC 1", None),
            (":SENS:VOLT:NPLC?", "1"),
            (":SENS:FUNC?", '"VOLT:DC"'),
            (":SENS:VOLT:AVER:STAT OFF", None),
            (":SYST:AZER:STAT OFF", None),
            (":TRIG:SOUR IMM", None),
            (":TRIG:COUN 1", None),
            (":SAMP:COUN 1", None),
            _NO_ERROR,
            (":READ?", "3.1415"),
            (":ABOR", None),
            (":INIT:CONT ON", None),
        ),
        reads=[3.1415],
    ),
    "DMM6500": Dialogue(
        source="pymeasure 0.16, tests/instruments/keithley/test_keithleyDMM6500.py; a public "
        "program for a DAQ6510 that builds its trigger model of blocks and reads READ and REL; "
        "DMM6500-901-01 for the buffer's TRACe:ACTual, FILL:MODE and POINts",
        driver="dmm6500",
        kind="dmm6500",
        settings={
            "function": "current",
            "range": 3.0,
            "nplc": 1.0,
            "interval_s": 0.04,
            "dead_man_s": 40.0,
            "accuracy_pct_of_reading": 0.1,
            "accuracy_floor": 1e-3,
        },
        lines=(
            ("ABORT", None),
            *_COMMON,
            ("*IDN?", "KEITHLEY INSTRUMENTS,MODEL DMM6500,04480963,1.0.04b"),
            ("*LANG?", "SCPI"),
            (':SENS:FUNC "CURR:DC"', None),
            (":SENS:FUNC?", '"CURR:DC"'),
            (":SENS:CURR:DC:RANG 3", None),
            ("CURR:DC:RANG?", "3"),
            (":SENS:CURR:DC:NPLC 1", None),
            ("CURR:DC:NPLC?", "1"),
            ("CURR:DC:AZER 0", None),
            ("AZERo:ONCE", None),
            ("FORM:DATA ASCII", None),
            ("FORM:ASC:PREC 16", None),
            ("TRAC:FILL:MODE CONT, 'defbuffer1'", None),
            ("TRAC:CLE 'defbuffer1'", None),
            ("SYST:LFR?", "50"),
            ("TRAC:POIN? 'defbuffer1'", "100000"),
            ("TRIG:LOAD 'EMPTY'", None),
            ("TRIG:BLOC:DEL:CONS 1, 0.02", None),
            ("TRIG:BLOC:MDIG 2, 'defbuffer1'", None),
            ("TRIG:BLOC:BRAN:COUN 3, 1000, 1", None),
            _NO_ERROR,
            ("INIT", None),
            ("TRAC:ACT:STAR? 'defbuffer1';:TRAC:ACT:END? 'defbuffer1'", "1;2"),
            ("TRAC:DATA? 1, 2, 'defbuffer1', READ, REL", "-4.999995E-01,0,3.414127E-04,0.04"),
            ("ABORT", None),
            ("TRIG:CONT REST", None),
        ),
        reads=[-0.4999995, 3.414127e-4],
        sent_only_by_us=frozenset({"LOGOUT"}),
    ),
    "WT310E": Dialogue(
        source="IM WT310E-17EN (chapter 5; condition register: page 7-5); commands of yoko-tool "
        "and of public programs for a WT310, which send :RATE 100MS, STAT:FILT1 FALL, STAT:EESR?",
        driver="wt300",
        kind="wt310e",
        settings={
            "model": "WT310E",
            "coupling": "dc",
            "voltage_range": 30.0,
            "current_range": 2.0,
            "update_s": 0.1,
        },
        lines=(
            (":COMM:REM ON", None),
            ("*RST", None),
            ("*CLS", None),
            ("*OPC?", "1"),
            ("*IDN?", "YOKOGAWA,WT310E,C3TC12345E,F1.04"),
            (":COMM:HEAD OFF", None),
            (":STAT:QMES ON", None),
            (":INPUT:MODE DC", None),
            (":INP:MODE?", "DC"),
            (":INP:VOLT:RANG 30", None),
            (":INP:VOLT:RANG?", "30.0E+00"),
            (":INP:CURR:RANG 2", None),
            (":INP:CURR:RANG?", "2.0E+00"),
            (":RATE 100MS", None),
            (":RATE?", "100MS"),
            (":NUMERIC:FORMAT ASC", None),
            (":NUM:NORM:NUM 1", None),
            (":NUMERIC:NORMAL:ITEM1 P,1", None),
            ("STAT:FILT1 FALL", None),
            (":STAT:ERR?", '0,"No error"'),
            ("STAT:EESR?", "1"),
            (":NUMERIC:NORMAL:VALUE?;:STATUS:CONDITION?", "104.75E+00;0"),
            (":INTEG:STAR", None),
            (":INTEG:STOP", None),
            (":INTEG:RES", None),
            (":COMM:REM OFF", None),
        ),
        reads=[104.75],
    ),
}


_NUMBER_OR_BOOLEAN = re.compile(r"[+-]?[\d.]+(E[+-]?\d+)?|ON|OFF")


def canonical(message: str) -> tuple[str, ...]:
    """A message without what SCPI leaves to the sender: one entry for each unit of it.

    Headers by their short forms (SCPI-99 volume 1, 6.2.1: four letters, three if the fourth is a
    vowel), without SENSe and DC, with the parameters that are words; numbers and booleans (ON is
    1) may be any.
    """
    return tuple(_unit(unit) for unit in message.split(";") if unit.strip())


def _unit(text: str) -> str:
    header, _, rest = text.strip().partition(" ")
    question = "?" if header.endswith("?") else ""
    nodes = [_short(node) for node in header.strip(":?").upper().split(":")]
    kept = [node for node in nodes if node not in ("SENS", "DC", "IMM", "NORM")] or nodes
    words = [part.strip().strip("\"'").upper() for part in rest.split(",") if part.strip()]
    shown = [word for word in words if not _NUMBER_OR_BOOLEAN.fullmatch(word)]
    return " ".join([":".join(kept) + question, *(_short(word) for word in shown)])


def _short(word: str) -> str:
    match = re.fullmatch(r"(\*?[A-Z]+)(\d*)", word)
    if match is None or len(match[1]) <= 4 or match[1].startswith("*"):
        return word
    letters = match[1][:3] if match[1][3] in "AEIOU" else match[1][:4]
    return letters + match[2]


def form(answer: str) -> str:
    """What kind of answer it is: numbers may be any, of any sign and length."""
    text = answer.strip()
    if text.startswith("#"):
        return "block"
    if text.count(",") == 3 and not text[0].isdigit():
        return "identity"
    text = re.sub(r"[+-]?\d+\.?\d*(E[+-]?\d+)?", "1", text, flags=re.IGNORECASE)
    return re.sub(r'(1,"No error)[^"]*', r"\1", text)
