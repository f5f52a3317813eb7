"""An app for the worker of ``benchmarks.queue``: a reconciler that does nothing, and a task that does the same."""
