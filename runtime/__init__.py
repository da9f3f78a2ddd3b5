"""What is on trial: a full inference runtime whose every layer carries fault points."""
