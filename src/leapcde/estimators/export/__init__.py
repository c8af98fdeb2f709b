"""Trained models for places without leapcde: as a pure function, as StableHLO, as ONNX."""
