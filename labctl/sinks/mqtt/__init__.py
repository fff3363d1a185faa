"""MQTT: settings, topics, messages, presence, sink, retained topics, Home Assistant."""
