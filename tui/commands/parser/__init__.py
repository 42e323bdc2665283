"""The command line: its parser, argument types, suggestions and shell completion."""
