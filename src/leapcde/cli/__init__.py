"""The command line: thin shells around the estimators."""
