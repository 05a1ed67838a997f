"""Google's protobuf modules, which have no type stubs, and the type of their messages."""

from typing import Any, TypeAlias

from google.cloud.location import locations_pb2  # type: ignore[import-untyped]
from google.longrunning import operations_pb2  # type: ignore[import-untyped]
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]

Message: TypeAlias = Any
"""A protobuf message; its fields are known only at run time."""

__all__ = ["Message", "error_details_pb2", "locations_pb2", "operations_pb2", "status_pb2"]
