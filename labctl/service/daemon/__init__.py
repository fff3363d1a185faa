"""The daemon: its workers, recovery, notices, systemd, commands over MQTT."""
