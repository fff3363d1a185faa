"""MQTT: settings, topics, messages, presence, sink, Home Assistant."""
