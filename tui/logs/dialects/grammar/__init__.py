"""The general grammar of names and values, which reads the lines that people print themselves."""
