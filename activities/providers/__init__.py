"""The clouds, one module each, behind one port."""
