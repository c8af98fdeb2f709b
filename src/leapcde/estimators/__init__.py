"""Everything behind `fit` and `predict`: scikit-learn estimators, streams, intervals, run folders."""
