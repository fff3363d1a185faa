"""What can go wrong with an instrument.

```
InstrumentError
├── ConnectionLost     the line is gone: close, wait, open again
├── NoAnswer           the line is there, but nothing came before the deadline
├── ProtocolError      an answer that the query cannot have
├── WrongInstrument    another make or model than the rig names
├── SettingRefused     the instrument does not have that range, function or speed
└── DriverUnusable     the driver of another package cannot be loaded
```

A message names the instrument, what was expected, and what to do next.
"""


class InstrumentError(Exception):
    """Root of everything an instrument can raise."""


class ConnectionLost(InstrumentError):
    """The transport is gone (refused, reset, unplugged)."""


class NoAnswer(InstrumentError):
    """Nothing arrived before the deadline."""


class ProtocolError(InstrumentError):
    """The instrument's answer cannot be understood."""


class WrongInstrument(InstrumentError):
    """The instrument identifies itself as another make or model."""


class SettingRefused(InstrumentError):
    """The instrument cannot do what the settings ask."""


class DriverUnusable(InstrumentError):
    """Another package's driver cannot be imported, or is not a driver."""
