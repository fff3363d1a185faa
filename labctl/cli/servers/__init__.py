"""Commands about InfluxDB, MQTT and the stack."""
