"""The parts of the command line's parser: types of arguments, suggestions, completion."""
