"""The command line: reads files, asks the library, prints tables for people and JSON for programs."""
