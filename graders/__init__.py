"""One file a chapter: the oracle, domain, checks and benchmark of its exercises."""
