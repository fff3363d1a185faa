#!/bin/bash
# Runs once, when the database is set up: a user for Grafana that can read the bucket and nothing
# else. Who may look at a dashboard may send requests through Grafana's data source.
set -euo pipefail
influx v1 auth create \
  --org "$DOCKER_INFLUXDB_INIT_ORG" \
  --username "$LABCTL_INFLUX_READ_USER" \
  --password "$LABCTL_INFLUX_READ_PASSWORD" \
  --read-bucket "$DOCKER_INFLUXDB_INIT_BUCKET_ID" \
  --description "Grafana reads the dashboards" >/dev/null
