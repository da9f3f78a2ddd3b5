"""The system under test: an inference runtime with fault points in every layer."""
