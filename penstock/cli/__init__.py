"""The `penstock` command: one module per command or family of commands, and `render_*` modules for its tables."""
