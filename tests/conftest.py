"""What holds for every test."""

from __future__ import annotations

import signal

from hypothesis import settings

# A busy machine is no failure: time is judged by benchmarks, not by hypothesis.
settings.register_profile("harness", deadline=None)
settings.load_profile("harness")

# A suite that a script starts in the background is deaf to Ctrl-C, and so would be all that it starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
