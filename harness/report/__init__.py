"""Reports of a run for people, CI jobs and scripts. All outputs render one model (`model.read`)."""
