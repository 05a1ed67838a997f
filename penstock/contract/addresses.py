"""Where programs find each other on one machine unless they are told otherwise: one row of ports, none of them twice."""

TEMPORAL_PORT = 7233
"""Temporal's own default."""
TEMPORAL_UI_PORT = 8233
"""A thousand above, as Temporal has it."""
SIM_PORT = 7234
"""The simulated cloud's, one above Temporal's, which it stands beside."""
GOOGLE_PORTS = (7235, 7236, 7237)
"""Google's emulator's: Compute, TPU and hosts."""
LOCAL_PORT = 7238
"""The daemon of local hosts'."""

DEFAULT_ADDRESS = f"127.0.0.1:{TEMPORAL_PORT}"
"""Where a Temporal server listens."""
DEFAULT_SIM_URL = f"http://127.0.0.1:{SIM_PORT}"
"""Where a simulated cloud listens."""
