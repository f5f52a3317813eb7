"""An app whose reconcilers the fault tests run in real worker processes, on the test library's models."""
