"""What a person, a CI job and a later script read of a run; all of it from one model (`model.read`)."""
