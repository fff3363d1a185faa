"""InfluxDB: settings, line protocol, writer, sink."""
