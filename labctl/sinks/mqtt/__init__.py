"""MQTT: settings, topics, messages, sink, retained topics, Home Assistant."""
