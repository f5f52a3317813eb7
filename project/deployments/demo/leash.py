"""Start a command that ends when its parent does: ``leash.py PARENT_PID COMMAND...``.

Run as a script by ``processes``, so that even a demo that is killed leaves nothing behind. On Linux the kernel sends
SIGTERM at the parent's death (prctl(2), PR_SET_PDEATHSIG, kept across exec); elsewhere this only starts the command.
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it died before the line above
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - the command comes from our own parent


if __name__ == "__main__":
    main()
