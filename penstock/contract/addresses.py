"""Default ports and addresses of the programs that run on one machine; no two of them share a port."""

TEMPORAL_PORT = 7233
"""Temporal's own default port."""
TEMPORAL_UI_PORT = 8233
"""Temporal's own default, 1000 above the server's."""
SIM_PORT = 7234
"""The simulated cloud."""
GOOGLE_PORTS = (7235, 7236, 7237)
"""The emulator of Google's clouds: Compute Engine, Cloud TPU, and the health port of its hosts."""
LOCAL_PORT = 7238
"""The daemon of the local provider."""

DEFAULT_ADDRESS = f"127.0.0.1:{TEMPORAL_PORT}"
"""The Temporal server, `host:port`."""
DEFAULT_SIM_URL = f"http://127.0.0.1:{SIM_PORT}"
"""The simulated cloud."""
