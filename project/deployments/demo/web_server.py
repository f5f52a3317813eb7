"""gunicorn's settings in a demo (``--config python:...``), one per name; a gunicorn too old for one passes over it."""

preload_app = True  # one import of the project serves both workers
workers = 2
threads = 4
keepalive = 30
graceful_timeout = 3
control_socket_disable = True  # else it makes a socket in the home directory, the same one for every demo
