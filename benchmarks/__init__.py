"""Measurements, each a command. Every figure is a ratio measured side by side in one run; see docs/how-to."""
