"""The process that decides. It holds the oracle and the verdicts, and imports no submission.

`warm` starts warm parents and talks to workers, `trial` runs one example and holds its output to the contract,
`compare` and `diagnose` say what is wrong with it, `check` runs a property, `exercise` a whole exercise.
"""
