"""The commands of the command line, by what they work on; what takes long to import is imported inside."""
