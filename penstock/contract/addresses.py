"""Default ports and addresses of all programs on one machine, each port used once."""

TEMPORAL_PORT = 7233
"""Temporal's own default port."""
TEMPORAL_UI_PORT = 8233
"""The default of Temporal's development server: its port plus 1000."""
SIM_PORT = 7234
"""The simulated cloud."""
GOOGLE_PORTS = (7235, 7236, 7237)
"""The emulator of Google Cloud: Compute API, TPU API, hosts."""
LOCAL_PORT = 7238
"""The daemon of local hosts."""

DEFAULT_ADDRESS = f"127.0.0.1:{TEMPORAL_PORT}"
"""Default address of the Temporal server."""
DEFAULT_SIM_URL = f"http://127.0.0.1:{SIM_PORT}"
"""Default address of the simulated cloud."""
