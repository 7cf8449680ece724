"""`python -m memlab` is the `memlab` command."""

import signal

# Ctrl-C while it is imported ends it without a traceback.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from memlab.cli import main

main()
