"""Views of a record: pure functions, each to one format."""
