"""InfluxDB, Mosquitto and Grafana on one machine without Docker, provisioned all the same."""
