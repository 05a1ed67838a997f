"""The public API of a cluster: `AutoscalerClient`, and the errors it raises."""

from penstock.client.autoscaler import AutoscalerClient
from penstock.client.errors import ClientError, NoSuchCluster, NoSuchSlice, NotSent, Refused
from penstock.contract.error_codes import ErrorCode

__all__ = ["AutoscalerClient", "ClientError", "ErrorCode", "NoSuchCluster", "NoSuchSlice", "NotSent", "Refused"]
