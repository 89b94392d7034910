"""How fast and how accurate the references are, against what a user would use instead. Not tests: they measure."""
