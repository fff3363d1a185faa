"""Lines to instruments: VISA, serial, a program, files of a host, an MQTT broker."""
