"""Files that people hold, as studies: each importer knows one kind, told by what a file holds and not by its name."""
