#!/usr/bin/env python
"""Django's command line for the reference project: a server that is not there is one line, not a traceback."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError, connection

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(f"Error: {error}")
    except OperationalError as error:
        if connection.connection is not None:
            raise  # it was reached, so this is something else
        from project.servers import unreachable

        sys.exit(f"Error: {unreachable(connection.settings_dict, error)}")
